package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

const (
	// fallback is how often a waiter who has heard nothing looks at the queue all the same.
	fallback = 2 * time.Minute

	// patience is when it does so first, and watches its own node, too, so that it learns soon when somebody
	// deletes it. Until then it learns it when it is woken.
	patience = 5 * time.Second
)

// queue waits in the queue until the claim is granted.
func (d *backend) queue(ctx context.Context, st *claimState) (g driver.Grant, err error) {
	for whole := false; ; {
		q, zxid, news, err := d.list(st.queue, whole)
		if err != nil {
			return g, err
		}
		st.known = max(st.known, zxid)
		i := slices.IndexFunc(q, func(e entry) bool { return e.node == path.Base(st.node) })
		id, _ := d.state()
		switch {
		case i < 0 || id != st.session: // it was deleted, perhaps with the queue and all in it
			st.doubt = true
			return g, errAgain
		case q[i].seq >= lastNumber: // numbers begin anew in the next queue
			return g, cmp.Or(d.remove(st.node), d.remove(st.queue), errAgain)
		case q[i].granted():
			if q.mustTell(i) {
				_, err = d.conn.Set(st.node, []byte(st.claim.Owner), -1)
			}
			if err != nil {
				return g, failed("write to", st.node, err)
			}
			return d.grant(st)
		}
		look, err := d.expire(st, q[:i])
		switch {
		case err != nil || look == 0: // again, at once
		case !st.claim.Wait:
			return g, cmp.Or(d.remove(st.node), driver.ErrTaken)
		case q.blocker(i) < 0 && !whole:
			whole = true // look again, and watch it
		case q.blocker(i) < 0:
			whole, err = false, d.wait(ctx, st, news, look)
		default:
			whole, err = false, d.waitFor(ctx, st, q[q.blocker(i)], look)
		}
		if err != nil {
			return g, err
		}
	}
}

// list returns the queue at path and the transaction that changed it last, and with watch a channel that tells of the
// next. A queue that is not there is empty.
func (d *backend) list(path string, watch bool) (q queue, zxid int64, news <-chan zk.Event, err error) {
	var children []string
	var stat *zk.Stat
	if watch {
		children, stat, news, err = d.conn.ChildrenW(path)
	} else {
		children, stat, err = d.conn.Children(path)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, 0, nil, nil
	}
	if err != nil {
		return nil, 0, nil, failed("list", path, err)
	}
	return parseQueue(children), stat.Pzxid, news, nil
}

// listNow lists the queue as it is now, and not as it was when a server that lags behind its leader
// last heard of it.
func (d *backend) listNow(path string) (queue, error) {
	if _, err := d.conn.Sync(path); err != nil {
		return nil, failed("sync", path, err)
	}
	q, _, _, err := d.list(path, false)
	return q, err
}

// expire removes one of those ahead who stay for a time after their release, if that is over. It returns when to look
// again, 0 if that is at once. Times of the server are compared with times of the server only.
func (d *backend) expire(st *claimState, ahead queue) (look time.Duration, err error) {
	look = patience
	if st.own != nil {
		look = fallback
	}
	for _, e := range ahead {
		if e.linger == 0 {
			continue
		}
		node := st.queue + "/" + e.node
		there, stat, err := d.conn.Exists(node)
		if err != nil {
			return 0, failed("read", node, err)
		}
		left := time.Duration(stat.Ctime)*time.Millisecond + e.linger - time.Duration(d.clock.Now()) - st.skew
		if !there || left <= 0 {
			return 0, d.remove(node)
		}
		look = min(look, left+time.Millisecond)
	}
	return look, nil
}

// waitFor waits until e, which blocks the claim, has changed or gone, or until it is time to look.
func (d *backend) waitFor(ctx context.Context, st *claimState, e entry, look time.Duration) error {
	node := st.queue + "/" + e.node
	if e.id == e.node {
		d.log.Warn("zookeeper: waiting for a node that is none of this version's claims", "node", node)
	}
	_, stat, news, err := d.conn.GetW(node)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return failed("watch", node, err)
	}
	if stat.Mzxid > st.known { // it was granted, perhaps after the listing
		st.known = stat.Mzxid
		return nil
	}
	return d.wait(ctx, st, news, look)
}

// wait waits for news, or of the claim's own node, or until it is time to look.
func (d *backend) wait(ctx context.Context, st *claimState, news <-chan zk.Event, look time.Duration) error {
	due := time.NewTimer(look)
	defer due.Stop()
	select {
	case <-news:
	case <-st.own:
		st.own = nil
	case <-due.C:
		if err := d.watchOwn(st); !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// watchOwn asks to be told of the next change of the claim's node, unless it is watched.
func (d *backend) watchOwn(st *claimState) (err error) {
	if st.own == nil || len(st.own) > 0 {
		_, _, st.own, err = d.conn.GetW(st.node)
	}
	return failed("watch", st.node, err)
}
