package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// tokenBits is how many bits of a token count the hand-overs within the process. The rest
// is the create revision.
const tokenBits = 10

// tryFor is how long an acquisition that does not wait is repeated while something is in its
// way that passes in a moment, such as a change of the leader.
const tryFor = time.Second

// Acquire takes a name, or waits for it in the queue.
func (b *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	cs := b.newState(c)
	begun := time.Now()
	var trouble error // the latest, as long as there is any
	for pause := (backoff{}); ; {
		grant, err := b.attempt(ctx, cs, &trouble)
		switch {
		case err == nil:
			return grant, nil
		case errors.Is(err, driver.ErrTaken):
			b.forget(cs)
			return driver.Grant{}, driver.ErrTaken
		case ctx.Err() != nil && trouble != nil:
			return driver.Grant{}, trouble
		case ctx.Err() != nil, lasting(err):
			return driver.Grant{}, err
		case errors.Is(err, errRefusedPut):
			continue
		case errors.Is(err, errSessionGone), errors.Is(err, errPlaceGone):
			cs.rev = 0
		case !c.Wait && time.Since(begun) > tryFor && !errors.Is(err, errSilence), !c.Wait && time.Since(begun) > slowest:
			return driver.Grant{}, err
		}
		trouble = err
		b.log.Debug("locker: acquiring is tried again", "backend", backendName, "name", c.Name, "error", err)
		pause.sleep(ctx)
	}
}

// attempt joins the queue, unless cs is in it, and waits for its turn. It ends with the
// first failure.
func (b *backend) attempt(ctx context.Context, cs *claimState, trouble *error) (driver.Grant, error) {
	s, err := b.live(ctx)
	if err != nil {
		return driver.Grant{}, err
	}
	if err := b.settle(ctx, cs); err != nil {
		return driver.Grant{}, err
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
		return driver.Grant{}, err
	}
	*trouble = nil
	if err := b.await(ctx, cs, v); err != nil {
		return driver.Grant{}, err
	}
	return b.grant(ctx, cs)
}

// join puts the key of cs at the end of the queue and returns who is ahead.
func (b *backend) join(ctx context.Context, s *session, cs *claimState) (view, error) {
	barrier, seen := s.atBarrier()
	noKey := clientv3.Compare(clientv3.CreateRevision(cs.key), "=", 0)
	otherwise := clientv3.OpTxn([]clientv3.Cmp{barrier, noKey},
		[]clientv3.Op{cs.ahead(), cs.put(s, queued)},
		[]clientv3.Op{clientv3.OpGet(s.barrier), clientv3.OpGet(cs.key)})
	resp, err := b.put(ctx, s, cs, []clientv3.Cmp{barrier, unchanged(cs.queue, 0)}, otherwise)
	if err != nil {
		return view{}, err
	}
	if resp.Succeeded {
		return view{rev: cs.rev, fits: true}, nil
	}
	inner := resp.Responses[0].GetResponseTxn()
	if inner.Succeeded {
		cs.isPut(s, resp.Header.Revision, queued)
		return newView(cs, parseAll(inner.Responses[0].GetResponseRange().Kvs), cs.rev), nil
	}
	s.barrierSeen(modRevision(inner.Responses[0].GetResponseRange().Kvs), resp.Header.Revision, seen)
	b.meet(s, cs, parseAll(inner.Responses[1].GetResponseRange().Kvs))
	return view{}, errRefusedPut
}

// joinIfFits puts the key of cs at the end of the queue if that means that it is granted.
// Otherwise the server writes nothing, and it returns ErrTaken.
func (b *backend) joinIfFits(ctx context.Context, s *session, cs *claimState) (view, error) {
	for fits := int64(0); ; {
		barrier, seen := s.atBarrier()
		resp, err := b.put(ctx, s, cs, []clientv3.Cmp{barrier, unchanged(cs.queue, fits)}, cs.ahead(), clientv3.OpGet(s.barrier))
		if err != nil {
			return view{}, err
		}
		if resp.Succeeded {
			return view{rev: cs.rev, fits: true}, nil
		}
		entries := parseAll(resp.Responses[0].GetResponseRange().Kvs)
		s.barrierSeen(modRevision(resp.Responses[1].GetResponseRange().Kvs), resp.Header.Revision, seen)
		if b.meet(s, cs, entries) {
			return view{}, errRefusedPut
		}
		if v := newView(cs, entries, resp.Header.Revision); !v.fits {
			return view{}, driver.ErrTaken
		}
		// As long as nobody joins after this revision it will fit.
		fits = resp.Header.Revision
	}
}

// unchanged is the condition that no key of a queue was written after a revision. At
// revision 0: that there is none.
func unchanged(queue string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(queue), "<", rev+1).WithPrefix()
}

// ahead reads the queue, the last first. Whoever needs all of the limit has to know
// only the last.
func (cs *claimState) ahead() clientv3.Op {
	return clientv3.OpGet(cs.queue, append(nearestFirst(), clientv3.WithLimit(cs.readAhead()))...)
}

// readAhead is how many of those ahead cs has to read; 0: all.
func (cs *claimState) readAhead() int64 {
	if cs.claim.Weight >= cs.claim.Limit {
		return 1
	}
	return 0
}

func nearestFirst() []clientv3.OpOption {
	return []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)}
}

func (cs *claimState) put(s *session, how string) clientv3.Op {
	return clientv3.OpPut(cs.key, cs.value(how), clientv3.WithLease(s.lease))
}

// put puts the key of cs under s if all of ifs hold; otherwise it makes the operations given.
func (b *backend) put(ctx context.Context, s *session, cs *claimState, ifs []clientv3.Cmp, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := b.txn(ctx, ifs, []clientv3.Op{cs.put(s, free)}, otherwise)
	switch {
	case err == nil:
		if resp.Succeeded {
			cs.isPut(s, resp.Header.Revision, free)
		}
		return resp, nil
	case !answered(err):
		cs.late, cs.unsure = s, true
	case errors.Is(err, rpctypes.ErrNoSpace): // it may be that it was done all the same
		cs.unsure, cs.session = true, s
	}
	return nil, fmt.Errorf("put: %w", err)
}

func (cs *claimState) isPut(s *session, rev int64, how string) {
	cs.session, cs.rev, cs.how = s, rev, how
}

// meet looks for the key of cs among entries. It is that of cs by an earlier request whose
// answer was lost, or somebody else's: then cs takes another.
func (b *backend) meet(s *session, cs *claimState, entries []entry) (found bool) {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.key == cs.key })
	switch {
	case i < 0:
		return false
	case entries[i].id == cs.claim.ID:
		cs.isPut(s, entries[i].rev, entries[i].how)
	default:
		taken := *cs
		b.chooseKey(cs)
		b.forget(&taken)
	}
	return true
}

// settle finds out what became of the requests of cs that were not answered. After it none
// of them can have an effect any more, and cs.rev is right.
func (b *backend) settle(ctx context.Context, cs *claimState) error {
	switch {
	case !cs.unsure:
		return nil
	case cs.late == nil || cs.late.isGone():
		resp, err := b.get(ctx, cs.key)
		if err != nil {
			return err
		}
		cs.found(cmp.Or(cs.late, cs.session), parseAll(resp.Kvs))
		return nil
	}
	s := cs.late
	_, seen := s.barrierState()
	resp, err := b.txn(ctx, nil, []clientv3.Op{s.moveBarrier(), clientv3.OpGet(cs.key)}, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		b.endSession(s)
		return b.settle(ctx, cs)
	case err != nil:
		return fmt.Errorf("move the barrier: %w", err)
	}
	s.barrierSeen(resp.Header.Revision, resp.Header.Revision, seen)
	cs.found(s, parseAll(resp.Responses[1].GetResponseRange().Kvs))
	return nil
}

// found notes what was stored under the key of cs.
func (cs *claimState) found(s *session, entries []entry) {
	cs.unsure, cs.late, cs.rev = false, nil, 0
	if len(entries) > 0 && entries[0].id == cs.claim.ID {
		cs.isPut(s, entries[0].rev, entries[0].how)
	}
}

// grant makes cs, which fits, a holder.
func (b *backend) grant(ctx context.Context, cs *claimState) (driver.Grant, error) {
	c := cs.claim
	if cs.rev >= 1<<(63-tokenBits) {
		return driver.Grant{}, errRevision
	}
	g := driver.Grant{Token: cs.rev << tokenBits, Spare: min(int64(c.Spare), 1<<tokenBits-1)}
	if c.Lease {
		sent, err := b.ownLease(ctx, cs, c.TTL)
		if errors.Is(err, driver.ErrGone) {
			err = errPlaceGone
		}
		g.Until = sent.Add(c.TTL)
		return g, err
	}
	s := cs.session
	if s.expiry().Sub(b.clock.Now()) < s.ttl/2 { // renewals have failed of late
		if err := b.renewSession(ctx, s); err != nil {
			return driver.Grant{}, err
		}
	}
	if s.isGone() {
		return driver.Grant{}, errSessionGone
	}
	g.Until = s.expiry()
	return g, nil
}

// backoff is a pause that grows from failure to failure, and begins anew after a
// time without any.
type backoff struct {
	next time.Duration
	last time.Time
}

func (p *backoff) sleep(ctx context.Context) {
	d := p.next
	if d == 0 || time.Since(p.last) > 5*time.Second {
		d = 20 * time.Millisecond
	}
	p.next = min(d*3/2, time.Second)
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	p.last = time.Now()
}
