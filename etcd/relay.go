package etcd

import (
	"context"
	"errors"
	"runtime"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Relay is a release that has the next claim join the queue in the same transaction, if one
// of this Locker stands directly behind c and thus is the first then. Each of many
// goroutines of one Locker thereby costs one request, and one entry in the server's log. For all
// that is in the queue it is as if the next joined right after the release. A marked
// key is deleted in no such way; see habit.
func (b *backend) Relay(ctx context.Context, c, next *driver.Claim, joined func()) error {
	e := own(c)
	if e == nil || e.marked || !b.isFollowed(ctx, e) {
		return b.Release(ctx, c)
	}
	n := b.newEntry(next)
	var first *mvccpb.KeyValue
	var err error
	n.joined, err = b.step(ctx, n, func(ctx context.Context, s *session, n *entry) (p place, err error) {
		p, first, err = b.enterInstead(ctx, s, n, e)
		return p, err
	})
	if err != nil && !n.sown {
		b.forget(n)
		next.State = nil
		return b.Release(ctx, c)
	}
	joined()
	switch {
	case err == nil:
		if first != nil {
			b.found(first)
		}
	case errors.Is(err, rpctypes.ErrNoSpace): // it may have been refused only after it was done
		if err := b.delete(ctx, e); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	default:
		return err
	}
	e.deleted = true
	return b.Release(ctx, c)
}

// enterInstead deletes the key of e and puts n at the end of the queue, or does neither. It
// returns the key that is the first then, if it is seen.
func (b *backend) enterInstead(ctx context.Context, s *session, n, e *entry) (p place, first *mvccpb.KeyValue, err error) {
	watched := s.fenceMark() > 0
	ifs := append(unlessThere(s, n), clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev.Load()))
	resp, err := b.put(ctx, s, n, ifs, []clientv3.Op{clientv3.OpDelete(e.key), lastOf(n.queue)})
	switch {
	case err != nil:
		return place{}, nil, err
	case !resp.Succeeded:
		return place{}, nil, errEntryGone
	}
	last := resp.Responses[1].GetResponseRange()
	p = b.joined(n, last, resp.Header.Revision, watched)
	b.follow(n, p)
	if n := len(last.Kvs); n > 0 && int64(n) == last.Count {
		first = last.Kvs[n-1]
	}
	return p, first, nil
}

// isFollowed reports whether one of this Locker stands directly behind e. If nobody else has
// been met it waits for one that is just joining: from then on all of this Locker are taken along,
// where otherwise each would join while the one before it, which holds the name only for a
// moment, is being released.
func (b *backend) isFollowed(ctx context.Context, e *entry) bool {
	if followed, others, _ := b.behind(e); followed || others {
		return followed
	}
	runtime.Gosched() // the turn of the next came with the grant of e, but it may have yet to run
	followed, _, coming := b.behind(e)
	if followed || coming == nil {
		return followed
	}
	select {
	case <-coming:
	case <-ctx.Done():
	}
	followed, _, _ = b.behind(e)
	return followed
}

// behind reports whether one of this Locker stands directly behind e, whether others have been
// met in the queue, and whether one of this Locker is joining it. Who stands behind whom never changes
// while both are there, since nobody comes to stand between them.
func (b *backend) behind(e *entry) (followed, others bool, coming <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	followed = e.next != nil && b.entries[e.next.key] == e.next && e.next.rev.Load() == e.nextRev
	_, others = b.habits[e.queue]
	return followed, others, b.coming[e.queue]
}

// follow returns the entry of this Locker directly ahead of e, which stands at p, and notes
// that it does; nil if another's is there.
func (b *backend) follow(e *entry, p place) (ahead *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.followLocked(e, p)
}

func (b *backend) followLocked(e *entry, p place) *entry {
	ahead := b.entries[p.key]
	if ahead == nil || ahead.rev.Load() != p.born {
		return nil
	}
	ahead.next, ahead.nextRev = e, e.rev.Load()
	return ahead
}

// comes notes that e is about to join its queue.
func (b *backend) comes(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.arrives = make(chan struct{})
	b.coming[e.queue] = e.arrives
}

// arrived notes that e has joined and stands at p, or has failed to for the first time.
func (b *backend) arrived(e *entry, p place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.arrives == nil {
		return
	}
	b.followLocked(e, p)
	close(e.arrives)
	if b.coming[e.queue] == e.arrives {
		delete(b.coming, e.queue)
	}
	e.arrives = nil
}
