package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
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
	gone    chan struct{} // closed when the server said that the lease is gone
	ending  sync.Once

	mu      sync.Mutex
	sent    driver.Instant // when the last renewal that was answered was sent
	until   driver.Instant // when the server may end the lease
	check   bool           // the lease may have been revoked: renew soon
	silent  int            // renewals without an answer in a row
	kept    *renewalStream // for the next renewal
	passed  int64          // the barrier's modification revision
	seen    int64          // the revision at which it was that
	members map[uint64]int64
}

func (s *session) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// barrierState returns the modification revision of the barrier, and the revision at which
// it was seen last.
func (s *session) barrierState() (passed, seen int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.passed, s.seen
}

// barrierSeen notes the barrier as it was at a revision, by the answer to a request that
// was sent when before was the revision seen last. A revision below that means that the
// server has been given an older state back.
func (s *session) barrierSeen(passed, at, before int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at > s.seen || at < before {
		s.passed, s.seen = passed, at
	}
}

// atBarrier is the condition that nobody has moved the barrier.
func (s *session) atBarrier() (cond clientv3.Cmp, seen int64) {
	passed, seen := s.barrierState()
	return clientv3.Compare(clientv3.ModRevision(s.barrier), "=", passed), seen
}

func (s *session) moveBarrier() clientv3.Op {
	return clientv3.OpPut(s.barrier, "", clientv3.WithLease(s.lease))
}

// renewed notes an answer to a request that was sent at a moment: the server began to
// count no earlier than that.
func (s *session) renewed(sent driver.Instant, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = 0
	if sent >= s.sent {
		s.sent, s.until, s.check = sent, sent.Add(ttl), false
	}
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
	lease, sent, ttl, err := b.grantLease(ctx, b.ttl)
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

// grantLease grants a lease of at least ttl and says when it was asked for.
func (b *backend) grantLease(ctx context.Context, ttl time.Duration) (id clientv3.LeaseID, sent driver.Instant, granted time.Duration, err error) {
	err = b.call(ctx, func(ctx context.Context) error {
		sent = b.clock.Now()
		r, err := b.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
		if err == nil {
			id, granted = r.ID, time.Duration(r.TTL)*time.Second
		}
		return err
	})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("grant a lease: %w", err)
	}
	return id, sent, granted, nil
}

// revoke ends a lease, and with it every key under it. It returns nil also if the lease
// was gone already.
func (b *backend) revoke(ctx context.Context, lease clientv3.LeaseID) error {
	err := b.call(ctx, func(ctx context.Context) error {
		_, err := b.client.Revoke(ctx, lease)
		return err
	})
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke lease %x: %w", lease, err)
	}
	return nil
}

// ownLease puts the key of cs, which is there, under a new lease of its own of at least ttl.
// The key keeps its create revision, and with it its place and its token. It returns when
// that was asked for, and ErrGone when the key is not there.
func (b *backend) ownLease(ctx context.Context, cs *claimState, ttl time.Duration) (sent driver.Instant, err error) {
	lease, sent, _, err := b.grantLease(ctx, ttl)
	if err != nil {
		return 0, err
	}
	cs.leases = append(cs.leases, lease)
	resp, err := b.txn(ctx, []clientv3.Cmp{cs.isThere()}, []clientv3.Op{clientv3.OpPut(cs.key, cs.value(cs.how), clientv3.WithLease(lease))}, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return 0, driver.ErrGone
	case err != nil:
		return 0, fmt.Errorf("put under lease %x: %w", lease, err)
	case !resp.Succeeded:
		return 0, driver.ErrGone
	}
	return sent, nil
}

// isThere is the condition that the key of cs is the one that was granted.
func (cs *claimState) isThere() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(cs.key), "=", cs.rev)
}

// revokeLeases ends the leases of cs but for the newest keep of them, and with them its key
// if that is under one of them.
func (b *backend) revokeLeases(ctx context.Context, cs *claimState, keep int) error {
	for len(cs.leases) > keep {
		if err := b.revoke(ctx, cs.leases[0]); err != nil {
			return err
		}
		cs.leases = cs.leases[1:]
	}
	return nil
}

func modRevision(kvs []*mvccpb.KeyValue) int64 {
	if len(kvs) == 0 {
		return 0
	}
	return kvs[0].ModRevision
}
