package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A key that an operator deletes takes the lock away from its holder, who is to
// learn it within a second. A watch on the key costs nothing while nothing happens,
// but one request to begin: too much for locks that are held for a moment only. So
// what has been held for a while is given a watch that begins at the revision after
// the one that created the key. That is in the past, for which the server takes its
// time, but not more than 100 ms.
//
// Who holds many has a few watched, and asks now and then which keys are under
// the session's lease, for all the others in one request.
const (
	// checkEvery is how often it is looked for holdings without a watch.
	checkEvery = 250 * time.Millisecond
	// guardAfter is how old a holding must be.
	guardAfter = 150 * time.Millisecond
	// guardMost is how many are given a watch.
	guardMost = 16
	// askEvery is the time between two questions for the keys under the lease.
	askEvery = 500 * time.Millisecond
	// confirmAtOnce is how many keys are read in one request; servers allow 128.
	confirmAtOnce = 100
)

var errDeleted = errors.New("the key was deleted")

// sweep looks after what has been held for a while.
func (b *backend) sweep(ctx context.Context) error {
	if !b.sweeping.TryLock() {
		return nil
	}
	defer b.sweeping.Unlock()
	toWatch, others := b.unguarded()
	for _, e := range toWatch {
		if err := b.guard(ctx, e); err != nil {
			return err
		}
	}
	if len(others) == 0 || time.Since(b.asked) < askEvery {
		return nil
	}
	b.asked = time.Now()
	return b.askAfter(ctx, others)
}

// unguarded returns what is to be given a watch, because it has none or has none any
// more, and what is to be asked after.
func (b *backend) unguarded() (toWatch, others []*entry) {
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	watched := 0
	for _, e := range b.entries {
		if e != nil && e.guard != nil {
			watched++
		}
	}
	for _, e := range b.entries {
		switch {
		case e == nil || !e.held || e.guard != nil || now.Sub(e.since) < guardAfter:
		case e.claim.Lease: // is not under the session's lease
			toWatch = append(toWatch, e)
		case watched < guardMost:
			toWatch = append(toWatch, e)
			watched++
		default:
			others = append(others, e)
		}
	}
	return toWatch, others
}

// askAfter finds out which of some entries are no longer there.
func (b *backend) askAfter(ctx context.Context, entries []*entry) error {
	s := b.session.Load()
	if s == nil {
		return nil
	}
	there, err := b.keysUnder(ctx, s)
	if err != nil {
		return err
	}
	if there == nil {
		s.suspect()
		return nil
	}
	space := b.space()
	entries = slices.DeleteFunc(entries, func(e *entry) bool {
		_, ok := there[space+e.key]
		return ok || e.session != s
	})
	// The leader was asked, who may have yet to apply what another member has told us.
	for some := range slices.Chunk(entries, confirmAtOnce) {
		if err := b.confirm(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// keysUnder returns the keys under the lease of s, nil if it is gone.
func (b *backend) keysUnder(ctx context.Context, s *session) (map[string]struct{}, error) {
	var resp *pb.LeaseTimeToLiveResponse
	err := b.call(ctx, func(ctx context.Context) (err error) {
		resp, err = b.leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(s.lease), Keys: true})
		return rpctypes.Error(err)
	})
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("keys of lease %x: %w", s.lease, err)
	case resp.TTL <= 0:
		return nil, nil
	}
	keys := make(map[string]struct{}, len(resp.Keys))
	for _, key := range resp.Keys {
		keys[string(key)] = struct{}{}
	}
	return keys, nil
}

// confirm reads whether the keys of some entries are there, and tells the holders of
// those that are not.
func (b *backend) confirm(ctx context.Context, entries []*entry) error {
	var reads []clientv3.Op
	for _, e := range entries {
		reads = append(reads, clientv3.OpGet(e.key, clientv3.WithKeysOnly()))
	}
	resp, err := b.txn(ctx, nil, reads, nil)
	if err != nil {
		return err
	}
	for i, e := range entries {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		if len(kvs) == 0 || kvs[0].CreateRevision != e.rev.Load() {
			b.vanished(e)
		}
	}
	return nil
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
	// The history since then may have been compacted, or be another one: a server that
	// has been given an older state back would wait for a revision to come.
	e.blind = true
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
