package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// session is a lease and what is known of it. A Locker has one at a time; when the
// server has said that it is gone the next acquisition, or a waiter, grants
// another.
//
// # The fence
//
// A request that was given up may still arrive, minutes later, when a frozen
// network thaws: an acquisition whose caller has long been told that it failed
// would then hold its lock. So each transaction that puts a key compares the
// modification revision of one more key, the session's fence (which at first does
// not exist: revision 0), with what this Locker last knew it to be. Whoever cleans
// up after a request whose fate is not known writes the fence in the same
// transaction: what was sent before and arrives after is then refused, for as long
// as the fence exists, which is as long as the lease does. After that the put is
// refused for want of the lease.
//
// Acquisitions of the same Locker that happened to be on their way at that moment
// are refused too. They are told the new revision and ask again.
type session struct {
	lease clientv3.LeaseID
	ttl   time.Duration // as the server granted it
	fence string        // the fence's key
	gone  chan struct{} // closed when the server said so

	mu      sync.Mutex
	asking  int           // requests for a renewal that are not answered
	asked   time.Time     // when the latest was made
	failed  int           // how many have failed in a row
	outcome chan struct{} // closed with the next outcome

	ended bool
	sent  driver.Instant // when the last renewal that was answered was sent
	until driver.Instant // when the server may end the lease
	check bool           // the lease may have been revoked: ask soon
	mark  int64          // the fence's modification revision
	asOf  int64          // the revision at which that was so
}

func (s *session) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// fenceMark returns the modification revision that the fence was last seen with.
func (s *session) fenceMark() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark
}

// known returns the revision at which the fence was seen last.
func (s *session) known() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asOf
}

// moved takes note of the fence as it was at a revision, by an answer to a request that
// was sent when another one was known. A revision before that one means that the
// server has been given an older state back.
func (s *session) moved(mark, asOf, known int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asOf > s.asOf || asOf < known {
		s.mark, s.asOf = mark, asOf
	}
}

// renewed takes note of an answer to a request that was sent at a moment. The
// server began to count no earlier than that.
func (s *session) renewed(sent driver.Instant, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent >= s.sent {
		s.sent, s.until, s.check = sent, sent.Add(ttl), false
	}
}

func (s *session) expiry() driver.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

// due reports whether the lease is to be renewed now, given how often that is asked.
func (s *session) due(now driver.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.check || now.Sub(s.sent) >= s.ttl/3-checkEvery/2
}

// suspect has the lease asked after at the next opportunity.
func (s *session) suspect() {
	s.mu.Lock()
	s.check = true
	s.mu.Unlock()
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
		fence:   b.fenceOf(lease),
		gone:    make(chan struct{}),
		outcome: make(chan struct{}),
		sent:    sent,
		until:   sent.Add(ttl),
	}
	b.session.Store(s)
	if b.life.Err() != nil { // Close may not have seen it
		_ = b.revoke(ctx, lease)
		return nil, b.life.Err()
	}
	return s, nil
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

// revoke ends a lease, and with it every key under it. One that is gone already is
// as good.
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

// endSession is called when the server has said that the lease of s is gone, and
// so are all keys under it.
func (b *backend) endSession(s *session) {
	s.mu.Lock()
	ended := s.ended
	s.ended = true
	s.mu.Unlock()
	if ended {
		return
	}
	b.session.CompareAndSwap(s, nil)
	close(s.gone)
	b.mu.Lock()
	var lost []*entry
	for _, e := range b.entries {
		if e != nil && e.held && e.session == s && !e.claim.Lease {
			lost = append(lost, e)
		}
	}
	b.mu.Unlock()
	for _, e := range lost {
		b.lose(e, errSessionGone)
	}
}

// refresh renews the lease of s until wanted no longer says so, or ctx ends.
func (b *backend) refresh(ctx context.Context, s *session, wanted func() bool) error {
	for wanted() {
		outcome := b.renewAside(s)
		select {
		case <-outcome:
		case <-time.After(renewPause):
		case <-s.gone:
			return errSessionGone
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

const (
	// renewPause is the least time between two requests for a renewal; it grows while
	// they fail.
	renewPause = 50 * time.Millisecond
	// renewMost is how many of them may be unanswered.
	renewMost = 4
)

// renewAside makes a request for a renewal if it is time for one, and returns what is
// closed with the next outcome of any. One that is not answered soon is followed by
// another, as a rule to another member, but not given up: late answers count as well,
// from the moment of sending.
func (b *backend) renewAside(s *session) (outcome <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	patience := min(renewPause<<min(s.failed, 5), time.Second)
	if s.asking > 0 {
		patience = min(max(s.ttl/6, 300*time.Millisecond), 2*time.Second)
	}
	if s.asking < renewMost && time.Since(s.asked) >= patience {
		s.asking++
		s.asked = time.Now()
		go b.renewOnce(s)
	}
	return s.outcome
}

func (b *backend) renewOnce(s *session) {
	ctx, cancel := context.WithTimeout(b.life, min(s.ttl, 5*time.Second))
	defer cancel()
	sent := b.clock.Now()
	ttl, err := b.pulse.beat(ctx, s.lease)
	switch {
	case err == nil && ttl > 0:
		s.renewed(sent, ttl)
	case err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound):
		b.endSession(s)
	case ctx.Err() != nil:
		b.watches.suspect()
	default:
		b.log.Debug("locker: lease not renewed", "backend", backendName, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed++; err == nil {
		s.failed = 0
	}
	s.asking--
	close(s.outcome)
	s.outcome = make(chan struct{})
}

// Renew keeps the session's lease alive, with one request for all claims when it is
// time, and sees to the guard of what is held.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	if s := b.session.Load(); s != nil {
		_ = b.refresh(ctx, s, func() bool { return s.due(b.clock.Now()) })
	}
	for _, c := range claims {
		e := own(c)
		switch {
		case e == nil || e.session == nil:
		case e.session.isGone():
			report(c, 0, driver.ErrGone)
		default:
			report(c, e.session.expiry(), nil)
		}
	}
	if err := b.sweep(ctx); err != nil {
		b.log.Debug("locker: no watch over what is held", "backend", backendName, "error", err)
	}
}
