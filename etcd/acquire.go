package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// tokenBits is how many bits of a token count the hand-overs within the process. The
	// rest is the create revision.
	tokenBits = 10
	// tryFor is how long an acquisition that does not wait is repeated while something is in
	// its way that passes in a moment, such as a change of the leader.
	tryFor = time.Second
	// longestPause is the greatest pause between two attempts that failed.
	longestPause = time.Second
)

// Acquire takes a name, or waits for it in the queue.
func (b *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	cs := b.newState(c)
	begun := time.Now()
	var trouble error // the latest, as long as there is any
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, longestPause) {
		joined, err := b.attempt(ctx, cs)
		if err == nil {
			return b.grant(cs), nil
		}
		if joined {
			trouble, pause = nil, 20*time.Millisecond
		}
		patient := c.Wait || time.Since(begun) < tryFor || errors.Is(err, errSilence) && time.Since(begun) < slowest
		switch {
		case errors.Is(err, driver.ErrTaken):
			b.forget(cs)
			return driver.Grant{}, err
		case ctx.Err() != nil && errors.Is(err, ctx.Err()) && trouble != nil:
			return driver.Grant{}, trouble
		case ctx.Err() != nil, lasting(err), !patient:
			return driver.Grant{}, err
		case errors.Is(err, errPutRefused):
			continue
		case errors.Is(err, errSessionGone), errors.Is(err, errPlaceGone):
			cs.rev = 0
		}
		trouble = err
		b.log.Debug("locker: acquiring is tried again", "backend", backendName, "name", c.Name, "error", err)
		rest := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-rest.C:
		case <-ctx.Done():
		}
		rest.Stop()
	}
}

// attempt joins the queue, unless cs is in it, and waits until cs holds the name. It ends
// with the first failure, and reports whether cs was in the queue by then.
func (b *backend) attempt(ctx context.Context, cs *claimState) (joined bool, err error) {
	s, err := b.live(ctx)
	if err != nil {
		return false, err
	}
	if err := b.settle(ctx, cs); err != nil {
		return false, err
	}
	var v view
	switch {
	case cs.rev > 0 && !cs.session.isGone():
		v, err = b.look(ctx, cs, 0)
	case cs.claim.Wait:
		v, err = b.join(ctx, s, cs)
	default:
		v, err = b.joinIfFits(ctx, s, cs)
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		b.endSession(s)
		err = errSessionGone
	}
	if err != nil {
		return false, err
	}
	if err := b.await(ctx, cs, v); err != nil {
		return true, err
	}
	return true, b.confirmSession(ctx, cs)
}

// join puts the key of cs at the end of the queue and returns who is ahead. The server finds
// out faster that nobody is there than who it is (6 % of acquiring and releasing a free
// lock), so that this is asked first, unless this Locker had to wait a moment ago.
func (b *backend) join(ctx context.Context, s *session, cs *claimState) (view, error) {
	if b.clock.Now().Sub(driver.Instant(b.waited.Load())) > lingerFor {
		resp, err := b.put(ctx, s, cs, free, unchanged(cs.queue, 0), nil)
		if err != nil || resp.Succeeded {
			return view{fits: true}, err
		}
	}
	noKey := clientv3.Compare(clientv3.CreateRevision(cs.key), "=", 0)
	resp, err := b.put(ctx, s, cs, queued, noKey, []clientv3.Op{cs.ahead()}, clientv3.OpGet(s.barrier), clientv3.OpGet(cs.key))
	if err != nil {
		return view{}, err
	}
	entries := parseAll(resp.Responses[0].GetResponseRange().Kvs)
	if resp.Succeeded {
		return newView(cs, entries, cs.rev), nil
	}
	s.passed.Store(modRevision(resp.Responses[0].GetResponseRange().Kvs))
	b.meet(cs, parseAll(resp.Responses[1].GetResponseRange().Kvs))
	return view{}, errPutRefused
}

// joinIfFits puts the key of cs at the end of the queue if that means that it is granted.
// Otherwise the server writes nothing, and it returns ErrTaken.
func (b *backend) joinIfFits(ctx context.Context, s *session, cs *claimState) (view, error) {
	for seen := int64(0); ; {
		resp, err := b.put(ctx, s, cs, free, unchanged(cs.queue, seen), nil, cs.ahead(), clientv3.OpGet(s.barrier))
		if err != nil {
			return view{}, err
		}
		if resp.Succeeded {
			return view{fits: true}, nil
		}
		ahead := parseAll(resp.Responses[0].GetResponseRange().Kvs)
		s.passed.Store(modRevision(resp.Responses[1].GetResponseRange().Kvs))
		switch {
		case b.meet(cs, ahead):
			return view{}, errPutRefused
		case !newView(cs, ahead, 0).fits:
			return view{}, driver.ErrTaken
		}
		seen = resp.Header.Revision // if nobody joins after it, cs fits
	}
}

// unchanged is the condition that a queue was not written to after a revision; at revision
// 0, that it is empty.
func unchanged(queue string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(queue), "<", rev+1).WithPrefix()
}

// put carries out the operations first and puts the key of cs under s, if the barrier is where
// it was and cond holds; otherwise it carries out the operations otherwise.
func (b *backend) put(ctx context.Context, s *session, cs *claimState, how string, cond clientv3.Cmp, first []clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	cs.session = s
	then := append(first, clientv3.OpPut(cs.key, cs.value(how), clientv3.WithLease(s.lease)))
	resp, err := b.txn(ctx, []clientv3.Cmp{s.atBarrier(), cond}, then, otherwise)
	if err != nil {
		cs.late = !answered(err)
		cs.unsure = cs.late || errors.Is(err, rpctypes.ErrNoSpace) // which may be said after it was done
		return nil, fmt.Errorf("put: %w", err)
	}
	if resp.Succeeded {
		cs.rev, cs.how = resp.Header.Revision, how
	}
	return resp, nil
}

// ahead reads the queue, the last first.
func (cs *claimState) ahead() clientv3.Op {
	return clientv3.OpGet(cs.queue, append(nearestFirst(), clientv3.WithLimit(cs.enough()))...)
}

// enough is how many of those ahead, or behind, have to be read; 0: all. For whoever needs
// all of the limit one is enough.
func (cs *claimState) enough() int64 {
	if cs.claim.Weight >= cs.claim.Limit {
		return 1
	}
	return 0
}

func nearestFirst() []clientv3.OpOption {
	return []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)}
}

// meet looks for the key of cs among entries. If it is there it is that of cs, by an earlier
// request whose answer was lost, or somebody else's: then cs takes another.
func (b *backend) meet(cs *claimState, entries []entry) (found bool) {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.key == cs.key })
	if i < 0 || cs.owns(entries[i]) {
		return i >= 0
	}
	taken := *cs
	b.chooseKey(cs)
	b.forget(&taken)
	return true
}

// owns reports whether e is the entry of cs, and takes its revision if so.
func (cs *claimState) owns(e entry) bool {
	if e.id != cs.claim.ID {
		return false
	}
	cs.rev, cs.how = e.rev, e.how
	return true
}

// settle finds out what became of a request of cs that was not answered. After it that
// cannot have an effect any more, and cs.rev is right.
func (b *backend) settle(ctx context.Context, cs *claimState) error {
	if !cs.unsure {
		return nil
	}
	ops := []clientv3.Op{clientv3.OpGet(cs.key)}
	moves := cs.late && !cs.session.isGone()
	if moves {
		ops = append(ops, clientv3.OpPut(cs.session.barrier, "", clientv3.WithLease(cs.session.lease)))
	}
	resp, err := b.txn(ctx, nil, ops, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		b.endSession(cs.session)
		return b.settle(ctx, cs)
	case err != nil:
		return fmt.Errorf("move the barrier: %w", err)
	case moves:
		cs.session.passed.Store(resp.Header.Revision)
	}
	cs.unsure, cs.late, cs.rev = false, false, 0
	for _, e := range parseAll(resp.Responses[0].GetResponseRange().Kvs) {
		cs.owns(e)
	}
	return nil
}

// confirmSession makes sure that the lease of cs, which may hold the name now, is there, and
// lasts for a while.
func (b *backend) confirmSession(ctx context.Context, cs *claimState) error {
	s := cs.session
	if s.expiry().Sub(b.clock.Now()) < s.ttl/2 { // renewals have failed of late
		if err := b.renewSession(ctx, s); err != nil {
			return err
		}
	}
	if s.isGone() {
		return errSessionGone
	}
	if cs.rev >= 1<<(63-tokenBits) {
		return errRevision
	}
	return nil
}

func (b *backend) grant(cs *claimState) driver.Grant {
	return driver.Grant{
		Token: cs.rev << tokenBits,
		Spare: min(int64(cs.claim.Spare), 1<<tokenBits-1),
		Until: cs.session.expiry(),
	}
}

func modRevision(kvs []*mvccpb.KeyValue) int64 {
	if len(kvs) == 0 {
		return 0
	}
	return kvs[0].ModRevision
}
