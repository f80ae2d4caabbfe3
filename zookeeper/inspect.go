package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// Look returns the claims of name. That of an unknown form has its node's name for an ID.
func (d *backend) Look(ctx context.Context, name string) (all []driver.Position, err error) {
	path := d.queuePath(name)
	children, err := d.listNow(ctx, path)
	for _, e := range parseQueue(children) {
		data, stat, err := d.conn.Get(path + "/" + e.node)
		for errors.Is(err, zk.ErrNoNode) { // the claim has gone meanwhile, or has another node
			if e, err = d.entryOf(ctx, path, e.id); err == nil {
				data, stat, err = d.conn.Get(path + "/" + e.node)
			}
		}
		if errors.Is(err, driver.ErrGone) && ctx.Err() == nil {
			continue
		}
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			return nil, failed(path, err)
		}
		p := driver.Position{
			Name: name, ID: e.id, Owner: string(data), Weight: e.weight, Limit: e.limit,
			Held: e.granted(), Since: time.UnixMilli(stat.Ctime),
		}
		if e.linger > 0 {
			p.Left = max(0, time.Until(p.Since.Add(e.linger)))
		}
		if p.Held {
			p.Token = cmp.Or(e.czxid, stat.Czxid) << spareBits
			if e.seq > 0 || e.czxid > 0 {
				p.Since = time.Time{} // others may have been ahead when it joined, or the node is not its first
			}
		}
		all = append(all, p)
	}
	return all, failed(path, err)
}

// Names returns the names that are held or waited for.
func (d *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		queues, err := d.listNow(ctx, d.base)
		for _, q := range queues {
			name, bad := url.PathUnescape(q)
			if bad != nil || !strings.HasPrefix(name, prefix) {
				continue // not one of ours, or not asked for
			}
			var stat *zk.Stat
			_, stat, err = d.conn.Exists(d.base + "/" + q)
			if err = cmp.Or(err, context.Cause(ctx)); err != nil {
				break
			}
			if stat.NumChildren > 0 && !yield(name, nil) {
				return
			}
		}
		if err != nil {
			yield("", failed(d.base, err))
		}
	}
}

// Evict removes the node of a claim, also if another is put in its place meanwhile.
func (d *backend) Evict(ctx context.Context, name, id string) error {
	path := d.queuePath(name)
	for {
		e, err := d.entryOf(ctx, path, id)
		if err == nil {
			err = d.conn.Delete(path+"/"+e.node, -1)
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return failed(path, err)
		}
	}
}

// entryOf returns the entry of the claim with this ID in the queue at path as it is now, and [driver.ErrGone] if it has none.
func (d *backend) entryOf(ctx context.Context, path, id string) (entry, error) {
	children, err := d.listNow(ctx, path)
	for _, e := range parseQueue(children) {
		if e.id == id {
			return e, nil
		}
	}
	return entry{}, cmp.Or(err, driver.ErrGone)
}
