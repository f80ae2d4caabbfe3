package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

const (
	// fallback is how often a waiter who has heard nothing looks at the queue all the same.
	fallback = 2 * time.Minute

	// patience is after what time a waiter watches its own node, too, so that it learns soon when
	// somebody deletes it. Until then it learns it when it is woken.
	patience = 5 * time.Second
)

// A listing is what one look at a queue shows.
type listing struct {
	queue
	pzxid   int64           // of the last change of the queue that it shows
	left    time.Duration   // until the next entry that lingers is over; 0 if none lingers
	timed   bool            // the server's time was known
	changed <-chan zk.Event // told of any change of the queue, nil if not asked for
}

// list lists a queue, without those who have lingered long enough, whose nodes it removes. With watch
// it asks to be told of any change.
func (d *backend) list(path string, watch bool) (l listing, err error) {
	var children []string
	var stat *zk.Stat
	err = d.session.read(func() (err error) {
		if watch {
			children, stat, l.changed, err = d.session.conn.ChildrenW(path)
		} else {
			children, stat, err = d.session.conn.Children(path)
		}
		return err
	})
	if err != nil {
		return l, failed("list", path, err)
	}
	l.pzxid = stat.Pzxid
	var now time.Time
	now, l.timed = d.session.serverTime()
	for _, e := range parseQueue(children) {
		if e.linger > 0 && l.timed {
			left, err := d.lingerLeft(path, e, now)
			if err != nil {
				return l, err
			}
			if left <= 0 {
				continue
			}
			if l.left == 0 || left < l.left {
				l.left = left
			}
		}
		l.queue = append(l.queue, e)
	}
	l.weigh()
	return l, nil
}

// lingerLeft returns for how long an entry has still to linger; 0 if it is gone. Server times are
// compared with server times only.
func (d *backend) lingerLeft(path string, e entry, now time.Time) (left time.Duration, err error) {
	var there bool
	var stat *zk.Stat
	node := path + "/" + e.node
	err = d.session.read(func() (err error) {
		there, stat, err = d.session.conn.Exists(node)
		return err
	})
	if err != nil {
		return 0, failed("read", node, err)
	}
	if !there {
		return 0, nil
	}
	left = time.UnixMilli(stat.Ctime).Add(e.linger).Sub(now)
	if left <= 0 {
		return 0, d.remove(node)
	}
	return left, nil
}

// wait waits until the one that blocks the claim, or the whole queue if that is -1, has changed, or
// until it is time to look again for another reason.
func (d *backend) wait(ctx context.Context, st *claimState, l listing, blocker int) error {
	_, over := d.session.now()
	changed := l.changed
	if blocker >= 0 {
		e := l.queue[blocker]
		if e.weight == driver.All && e.id == e.node {
			d.log.Warn("zookeeper: waiting for a node that is not one of this version's claims", "queue", st.queue, "node", e.node)
		}
		stat, events, err := d.watch(st.queue + "/" + e.node)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		if stat.Mzxid > st.known { // it became lighter or was granted, perhaps after the listing
			st.known = stat.Mzxid
			return nil
		}
		changed = events
	}
	if !d.session.is(st.session) {
		return errAgain
	}
	look := fallback
	if l.left > 0 {
		look = min(look, l.left+time.Millisecond)
	}
	due := time.NewTimer(look)
	defer due.Stop()
	long := time.NewTimer(patience)
	defer long.Stop()
	for {
		select {
		case <-changed:
			return nil
		case <-due.C:
			return nil
		case <-st.own:
			st.own = nil
			return nil
		case <-over:
			return errAgain
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-long.C:
			if st.own != nil {
				continue
			}
			_, events, err := d.watch(st.node)
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			if err != nil {
				return err
			}
			st.own = events
		}
	}
}

// watch asks to be told of the next change of a node that is there, or of its end.
func (d *backend) watch(node string) (stat *zk.Stat, events <-chan zk.Event, err error) {
	err = d.session.read(func() (err error) {
		_, stat, events, err = d.session.conn.GetW(node)
		return err
	})
	if err != nil {
		return nil, nil, failed("watch", node, err)
	}
	return stat, events, nil
}
