package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
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
	names, stat, changed, err := d.session.children(path, watch)
	if err != nil {
		return l, err
	}
	l.pzxid, l.changed = stat.Pzxid, changed
	var now time.Time
	now, l.timed = d.session.serverTime()
	for _, e := range parseQueue(names) {
		if e.linger > 0 && l.timed {
			left, err := d.lingerLeft(path+"/"+e.node, e.linger, now)
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

// listNow lists the queue as it is now, and not as it was when a server that lags behind its leader
// last heard of it. A queue that is not there is empty.
func (d *backend) listNow(path string) (l listing, err error) {
	if err = d.session.sync(); err == nil {
		l, err = d.list(path, false)
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return l, err
}

// lingerLeft returns for how long an entry has still to linger, and removes it if that is over; 0 if
// it is gone. Server times are compared with server times only.
func (d *backend) lingerLeft(node string, linger time.Duration, now time.Time) (time.Duration, error) {
	stat, err := d.session.stat(node)
	if err != nil || stat == nil {
		return 0, err
	}
	left := time.UnixMilli(stat.Ctime).Add(linger).Sub(now)
	if left <= 0 {
		err = d.remove(node)
	}
	return left, err
}

// wait waits until the one that blocks the claim, or the whole queue if that is -1, has changed, or
// until it is time to look again for another reason.
func (d *backend) wait(ctx context.Context, st *claimState, l listing, blocker int) error {
	id, over := d.session.now()
	if id != st.session {
		return errAgain
	}
	changed := l.changed
	if blocker >= 0 {
		e := l.queue[blocker]
		if e.id == e.node {
			d.log.Warn("zookeeper: waiting for a node that is none of this version's claims", "queue", st.queue, "node", e.node)
		}
		if node := st.queue + "/" + e.node; st.watched != node {
			stat, events, err := d.session.watch(node)
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			if err != nil {
				return err
			}
			st.watched, st.news = node, events
			if stat.Mzxid > st.known { // it became lighter or was granted, perhaps after the listing
				st.known = stat.Mzxid
				return nil
			}
		}
		changed = st.news
	}
	look := fallback
	if l.left > 0 {
		look = min(look, l.left+time.Millisecond)
	}
	due, long := time.NewTimer(look), time.NewTimer(patience)
	defer due.Stop()
	defer long.Stop()
	for {
		select {
		case <-changed:
			st.watched = ""
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
			_, events, err := d.session.watch(st.node)
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
