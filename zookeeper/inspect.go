package zookeeper

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// listNow lists the queue as it is now, and not as it was when a server that lags behind its leader
// last heard of it. A queue that is not there is empty.
func (d *backend) listNow(ctx context.Context, path string) (listing, error) {
	if _, err := d.session.usable(ctx, false); err != nil {
		return listing{}, err
	}
	if err := d.session.sync(); err != nil {
		return listing{}, failed("sync", path, err)
	}
	l, err := d.list(path, false)
	if errors.Is(err, zk.ErrNoNode) {
		return listing{}, nil
	}
	return l, err
}

// Look returns the claims of name. That of an unknown form has its node's name for an ID.
func (d *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	path := queuePath(d.base, name)
	l, err := d.listNow(ctx, path)
	if err != nil {
		return nil, err
	}
	var all []driver.Position
	for _, e := range l.queue {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var data []byte
		var stat *zk.Stat
		err := d.session.read(func() (err error) {
			data, stat, err = d.session.conn.Get(path + "/" + e.node)
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, failed("read", path+"/"+e.node, err)
		}
		all = append(all, d.position(name, e, string(data), stat))
	}
	return all, nil
}

func (d *backend) position(name string, e entry, data string, stat *zk.Stat) driver.Position {
	p := driver.Position{
		Name: name, ID: e.id, Owner: data, Weight: e.weight, Limit: e.limit,
		Held: e.granted(), Since: time.UnixMilli(stat.Ctime),
	}
	if p.Held {
		p.Token = token(stat.Czxid)
	}
	if e.linger > 0 {
		first, owner, _ := strings.Cut(data, " ")
		p.Token, _ = strconv.ParseInt(first, 10, 64)
		p.Owner, p.Left = owner, e.linger
		if now, ok := d.session.serverTime(); ok {
			p.Left = time.UnixMilli(stat.Ctime).Add(e.linger).Sub(now)
		}
	}
	return p
}

// Names returns the names that are held or waited for.
func (d *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if _, err := d.session.usable(ctx, false); err != nil {
			yield("", err)
			return
		}
		var folders []string
		err := d.session.sync()
		if err == nil {
			err = d.session.read(func() (err error) {
				folders, _, err = d.session.conn.Children(d.base)
				return err
			})
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			yield("", failed("list", d.base, err))
			return
		}
		for _, f := range folders {
			name, err := url.PathUnescape(f)
			if err != nil || !strings.HasPrefix(name, prefix) {
				continue // not one of ours, or not asked for
			}
			if err := ctx.Err(); err != nil {
				yield("", context.Cause(ctx))
				return
			}
			l, err := d.list(d.base+"/"+f, false)
			switch {
			case errors.Is(err, zk.ErrNoNode) || err == nil && len(l.queue) == 0:
			case err != nil:
				yield("", err)
				return
			case !yield(name, nil):
				return
			}
		}
	}
}

// Evict removes the node of a claim.
func (d *backend) Evict(ctx context.Context, name, id string) error {
	path := queuePath(d.base, name)
	l, err := d.listNow(ctx, path)
	if err != nil {
		return err
	}
	for _, e := range l.queue {
		if e.id != id {
			continue
		}
		node := path + "/" + e.node
		err := d.session.write(func() error { return d.session.conn.Delete(node, -1) })
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return driver.ErrGone
		case err != nil:
			return failed("delete", node, err)
		}
		return nil
	}
	return driver.ErrGone
}
