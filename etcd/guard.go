package etcd

import (
	"context"
	"errors"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"time"
)

// A key that an operator deletes takes the lock away from its holder, who is to
// learn it within a second. A watch on the key costs nothing while nothing happens,
// but one request to begin: too much for locks that are held for a moment only. So
// what has been held for a while is given a watch that begins at the revision after
// the one that created the key. That is in the past, for which the server takes its
// time, but not more than 100 ms.
const (
	// checkEvery is how often it is looked for holdings without a watch.
	checkEvery = 250 * time.Millisecond
	// guardAfter is how old a holding must be.
	guardAfter = 150 * time.Millisecond
)

var errDeleted = errors.New("the key was deleted")

// sweep gives a watch to what has been held for a while and has none, or has none
// any more.
func (b *backend) sweep(ctx context.Context) error {
	if !b.sweeping.TryLock() {
		return nil
	}
	defer b.sweeping.Unlock()
	for _, e := range b.unguarded() {
		if err := b.guard(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (b *backend) unguarded() []*entry {
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*entry
	for _, e := range b.entries {
		if e != nil && e.held && e.guard == nil && now.Sub(e.since) >= guardAfter {
			all = append(all, e)
		}
	}
	return all
}

// guard gives e a watch.
func (b *backend) guard(ctx context.Context, e *entry) error {
	b.mu.Lock()
	after, blind := max(e.guardFrom, e.rev.Load()), e.blind
	b.mu.Unlock()
	if blind {
		there, rev, err := b.exists(ctx, e)
		switch {
		case err != nil:
			return err
		case !there:
			b.vanished(e)
			return nil
		}
		after = rev
	}
	ready := make(chan *tap, 1)
	t, _, err := b.watches.ask(ctx, b.space()+e.key, after, after+1, func() { b.guardEnded(e, <-ready) })
	if err != nil {
		return err
	}
	ready <- t
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.guardFrom, e.blind = after, false; e.held {
		e.guard = t
	} else {
		t.close()
	}
	return nil
}

// guardEnded is called when the watch of e has nothing more to tell.
func (b *backend) guardEnded(e *entry, t *tap) {
	if t.deleted > 0 {
		b.vanished(e)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.guard == t {
		e.guard = nil // the next sweep gives it another
	}
	e.blind = errors.Is(t.err, rpctypes.ErrCompacted)
}

// vanished is called when the key of a holder has been deleted. Perhaps it was not
// the key but the lease.
func (b *backend) vanished(e *entry) {
	e.session.suspect()
	b.lose(e, errDeleted)
}

// exists reads whether the key of e is still the one that was granted, and at which
// revision that was so.
func (b *backend) exists(ctx context.Context, e *entry) (there bool, rev int64, err error) {
	var resp *clientv3.GetResponse
	err = b.call(ctx, func(ctx context.Context) (err error) {
		resp, err = b.client.Get(ctx, e.key, clientv3.WithKeysOnly())
		return err
	})
	if err != nil {
		return false, 0, err
	}
	there = len(resp.Kvs) == 1 && resp.Kvs[0].CreateRevision == e.rev.Load()
	return there, resp.Header.Revision, nil
}

var _ driver.Driver = (*backend)(nil)
