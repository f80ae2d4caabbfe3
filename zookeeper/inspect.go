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

// Look returns the claims of name. That of an unknown form has its node's name for an ID.
func (d *backend) Look(ctx context.Context, name string) (all []driver.Position, err error) {
	if _, err := d.session.usable(ctx, false); err != nil {
		return nil, err
	}
	path := queuePath(d.base, name)
	l, err := d.listNow(path)
	for _, e := range l.queue {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			break
		}
		var data []byte
		var stat *zk.Stat
		if data, stat, err = d.session.get(path + "/" + e.node); err == nil {
			all = append(all, d.position(name, e, string(data), stat))
		} else if errors.Is(err, zk.ErrNoNode) {
			err = nil // it has gone meanwhile
		}
	}
	return all, err
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
			p.Left -= now.Sub(p.Since)
		}
	}
	return p
}

// Names returns the names that are held or waited for.
func (d *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		_, err := d.session.usable(ctx, false)
		if err == nil {
			err = d.session.sync()
		}
		var folders []string
		if err == nil {
			folders, _, _, err = d.session.children(d.base, false)
		}
		for _, f := range folders {
			name, bad := url.PathUnescape(f)
			if bad != nil || !strings.HasPrefix(name, prefix) {
				continue // not one of ours, or not asked for
			}
			if err = context.Cause(ctx); err != nil {
				break
			}
			var l listing
			if l, err = d.list(d.base+"/"+f, false); err != nil && !errors.Is(err, zk.ErrNoNode) {
				break
			}
			if len(l.queue) > 0 && !yield(name, nil) {
				return
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			yield("", err)
		}
	}
}

// Evict removes the node of a claim.
func (d *backend) Evict(ctx context.Context, name, id string) error {
	if _, err := d.session.usable(ctx, false); err != nil {
		return err
	}
	path := queuePath(d.base, name)
	l, err := d.listNow(path)
	if err != nil {
		return err
	}
	for _, e := range l.queue {
		if e.id == id {
			err := d.session.delete(path + "/" + e.node)
			if errors.Is(err, zk.ErrNoNode) {
				break
			}
			return err
		}
	}
	return driver.ErrGone
}
