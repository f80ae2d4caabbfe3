package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is a lease and what is known of it. A Locker has one at a time; when the
// server has said that it is gone the next acquisition, or a waiter, grants another.
//
// A request that was given up may still arrive, minutes later, when a frozen network thaws: an acquisition whose caller has
// long been told that it failed would then hold its lock. So each transaction that puts a key compares the modification
// revision of one more key, the barrier (which at first does not exist: revision 0), with what this Locker last knew it to
// be. Whoever cleans up after a request whose fate is not known writes the barrier first: what was sent before and arrives
// after is refused, until the lease ends, and then for want of the lease. Other acquisitions on their way at that moment are
// told the new revision and ask again.
type session struct {
	lease   clientv3.LeaseID
	ttl     time.Duration // as the server granted it
	barrier string        // the barrier's key
	passed  atomic.Int64  // the barrier's modification revision, as it was seen last
	sent    atomic.Int64  // when the last renewal that was answered was sent, an Instant
	failing atomic.Bool   // whether the last renewal that ended failed
	tries   atomic.Int64  // renewals that were begun while it is so

	gone context.Context // ends when the server said that the lease is gone
	end  context.CancelFunc
}

// expiry returns when the server may end the lease: it counts from when the last renewal that it answered was sent, or later.
func (s *session) expiry() driver.Instant { return driver.Instant(s.sent.Load()).Add(s.ttl) }

// live returns the session, and begins one if there is none. However many wait for it, one asks.
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
	s := &session{lease: lease, ttl: ttl, barrier: b.barrierOf(lease)}
	s.gone, s.end = context.WithCancel(context.Background())
	s.sent.Store(int64(sent))
	b.session.Store(s)
	return s, nil
}

// endSession is called when the server has said that the lease of s is gone, and
// so are all keys under it. Waiters are told by s.gone, holders by the next Renew.
func (b *backend) endSession(s *session) {
	b.session.CompareAndSwap(s, nil)
	s.end()
}

// grantLease grants a lease of at least ttl and returns what the server made of that.
func (b *backend) grantLease(ctx context.Context, ttl time.Duration) (id clientv3.LeaseID, granted time.Duration, err error) {
	r, err := call(ctx, b, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return b.client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	})
	if err != nil {
		return 0, 0, fmt.Errorf("grant a lease: %w", err)
	}
	return r.ID, time.Duration(r.TTL) * time.Second, nil
}

// revoke ends a lease, and with it every key under it. It returns nil also if the lease was gone already.
func (b *backend) revoke(ctx context.Context, lease clientv3.LeaseID) error {
	err := insist(ctx, func() error {
		_, err := call(ctx, b, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) { return b.client.Revoke(ctx, lease) })
		return err
	})
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke lease %x: %w", lease, err)
	}
	return nil
}
