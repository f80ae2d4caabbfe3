package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is a lease and what is known of it. A Locker has one at a time; when the
// server has said that it is gone the next acquisition, or a waiter, grants another.
//
// # The barrier
//
// A request that was given up may still arrive, minutes later, when a frozen
// network thaws: an acquisition whose caller has long been told that it failed
// would then hold its lock. So each transaction that puts a key compares the
// modification revision of one more key, the session's barrier (which at first does
// not exist: revision 0), with what this Locker last knew it to be. Whoever cleans
// up after a request whose fate is not known writes the barrier first: what was sent
// before and arrives after is then refused, for as long as the barrier exists, which is as
// long as the lease does. After that the put is refused for want of the lease.
//
// Acquisitions of the same Locker that happened to be on their way at that moment
// are refused too. They are told the new revision and ask again.
type session struct {
	lease   clientv3.LeaseID
	ttl     time.Duration // as the server granted it
	barrier string        // the barrier's key
	passed  atomic.Int64  // the barrier's modification revision, as it was seen last
	gone    chan struct{} // closed when the server said that the lease is gone
	ending  sync.Once
	kept    atomic.Pointer[renewalStream] // for the next renewal

	mu      sync.Mutex
	sent    driver.Instant   // when the last renewal that was answered was sent
	until   driver.Instant   // when the server may end the lease
	check   bool             // the lease may have been revoked: renew soon
	silent  int              // renewals without an answer in a row
	members map[uint64]int64 // their revisions, as they said last
}

func (s *session) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// atBarrier is the condition that nobody has moved the barrier.
func (s *session) atBarrier() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(s.barrier), "=", s.passed.Load())
}

// expiry returns when the server may end the lease.
func (s *session) expiry() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

// suspect has the lease renewed at the next opportunity, to learn whether it is there.
func (s *session) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check = true
}

// live returns the session, and begins one if there is none. However many wait for
// it, one asks.
func (b *backend) live(ctx context.Context) (*session, error) {
	if s := b.session.Load(); s != nil {
		return s, nil
	}
	select {
	case b.granting <- struct{}{}:
		defer func() { <-b.granting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s := b.session.Load(); s != nil {
		return s, nil
	}
	sent := b.clock.Now()
	lease, ttl, err := b.grantLease(ctx, b.ttl)
	if err != nil {
		return nil, err
	}
	s := &session{
		lease:   lease,
		ttl:     ttl,
		barrier: b.barrierOf(lease),
		gone:    make(chan struct{}),
		sent:    sent,
		until:   sent.Add(ttl),
		members: make(map[uint64]int64),
	}
	b.session.Store(s)
	if b.life.Err() != nil { // Close may not have seen it
		_ = b.revoke(ctx, lease)
		return nil, b.life.Err()
	}
	return s, nil
}

// endSession is called when the server has said that the lease of s is gone, and
// so are all keys under it. Waiters are told by s.gone, holders by the next Renew.
func (b *backend) endSession(s *session) {
	s.ending.Do(func() {
		b.session.CompareAndSwap(s, nil)
		close(s.gone)
	})
}

// grantLease grants a lease of at least ttl and returns what the server made of that.
func (b *backend) grantLease(ctx context.Context, ttl time.Duration) (id clientv3.LeaseID, granted time.Duration, err error) {
	err = b.call(ctx, func(ctx context.Context) error {
		r, err := b.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
		if err == nil {
			id, granted = r.ID, time.Duration(r.TTL)*time.Second
		}
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("grant a lease: %w", err)
	}
	return id, granted, nil
}

// revoke ends a lease, and with it every key under it. It returns nil also if the lease
// was gone already.
func (b *backend) revoke(ctx context.Context, lease clientv3.LeaseID) error {
	err := insist(ctx, func() error {
		return b.call(ctx, func(ctx context.Context) error {
			_, err := b.client.Revoke(ctx, lease)
			return err
		})
	})
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke lease %x: %w", lease, err)
	}
	return nil
}
