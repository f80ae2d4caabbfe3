package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// look returns the queue for name as it is now, and its path.
func (d *backend) look(ctx context.Context, name string) (q queue, path string, err error) {
	path = d.queuePath(name)
	if _, err = d.usable(ctx, false); err == nil {
		q, err = d.listNow(path)
	}
	return q, path, err
}

// Look returns the claims of name. That of an unknown form has its node's name for an ID.
func (d *backend) Look(ctx context.Context, name string) (all []driver.Position, err error) {
	q, path, err := d.look(ctx, name)
	for _, e := range q {
		data, stat, err := d.conn.Get(path + "/" + e.node)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			all = append(all, e.position(name, string(data), stat))
		case !errors.Is(err, zk.ErrNoNode): // otherwise it has gone meanwhile
			return nil, failed("read", path, err)
		}
	}
	return all, err
}

func (e entry) position(name, data string, stat *zk.Stat) driver.Position {
	p := driver.Position{
		Name: name, ID: e.id, Owner: data, Weight: e.weight, Limit: e.limit,
		Held: e.granted(), Since: time.UnixMilli(stat.Ctime),
	}
	if p.Held {
		p.Token = token(cmp.Or(e.czxid, stat.Czxid))
	}
	if e.linger > 0 {
		p.Left = time.Until(p.Since.Add(e.linger))
	}
	return p
}

// Names returns the names that are held or waited for.
func (d *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var queues []string
		_, err := d.usable(ctx, false)
		if err == nil {
			_, err = d.conn.Sync(d.base)
		}
		if err == nil {
			queues, _, err = d.conn.Children(d.base)
		}
		for _, q := range queues {
			name, bad := url.PathUnescape(q)
			if bad != nil || !strings.HasPrefix(name, prefix) {
				continue // not one of ours, or not asked for
			}
			var stat *zk.Stat
			if _, stat, err = d.conn.Exists(d.base + "/" + q); err == nil {
				err = context.Cause(ctx)
			}
			if err != nil || stat.NumChildren > 0 && !yield(name, nil) {
				break
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			yield("", failed("list", d.base, err))
		}
	}
}

// Evict removes the node of a claim.
func (d *backend) Evict(ctx context.Context, name, id string) error {
	q, path, err := d.look(ctx, name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(q, func(e entry) bool { return e.id == id })
	if i < 0 {
		return driver.ErrGone
	}
	return d.delete(path + "/" + q[i].node)
}
