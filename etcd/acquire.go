package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// tokenBits is how many bits of a token count the hand-overs within the process. The rest is the create revision.
	tokenBits = 10
	// tryFor times the patience with a request is how long an acquisition that does not wait is repeated
	// while something is in its way that passes in a moment, such as a change of the leader.
	tryFor = 3
)

// claimState is what the driver knows of a claim. Acquire writes it, and Lighten the
// weight; Renew, which may run beside all others, reads only what Acquire has written.
type claimState struct {
	claim  *driver.Claim
	queue  string // what the keys of the name begin with
	key    string
	number int   // at the end of key
	weight int32 // as it was written last, or tried to be
	joined time.Time

	session *session // whose lease the key was put under last
	rev     int64    // create revision of the key; 0: not known to exist
	how     string   // free or queued, as in its value
	unsure  bool     // the key may exist although rev is 0
	late    bool     // a request that puts it may still arrive
	tells   bool     // it has waited for permits, and has to tell who is behind when it is granted
}

// Acquire takes a name, or waits for it in the queue.
func (b *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	cs := &claimState{claim: c, queue: b.queueOf(c.Name), weight: c.Weight, joined: time.Now()}
	c.State = cs
	b.chooseKey(cs)
	var trouble error // the latest, as long as there is any
	for pause := new(driver.Backoff); ; pause.Sleep(ctx) {
		grant, joined, err := b.attempt(ctx, cs)
		if joined {
			trouble, *pause = nil, driver.Backoff{}
		}
		switch {
		case err == nil:
			return grant, nil
		case errors.Is(err, driver.ErrTaken):
			b.forget(cs.key)
			return driver.Grant{}, err
		case ctx.Err() != nil && errors.Is(err, ctx.Err()) && trouble != nil:
			return driver.Grant{}, trouble
		case ctx.Err() != nil, !c.Wait && time.Since(cs.joined) > tryFor*b.patience,
			errors.Is(err, driver.ErrRefused), errors.Is(err, rpctypes.ErrNoSpace):
			return driver.Grant{}, err
		case errors.Is(err, errSessionGone), errors.Is(err, errPlaceGone):
			cs.rev = 0
		}
		trouble = err
		b.log.Debug("locker: acquiring is tried again", "backend", backendName, "name", c.Name, "error", err)
	}
}

// attempt joins the queue, unless cs is in it, and waits until cs holds the name. It ends
// with the first failure, and reports whether cs was in the queue by then.
func (b *backend) attempt(ctx context.Context, cs *claimState) (grant driver.Grant, joined bool, err error) {
	s, err := b.live(ctx)
	if err == nil && cs.unsure {
		if err = b.clear(ctx, cs); err == nil {
			cs.rev = 0
			b.chooseKey(cs)
		}
	}
	if err != nil {
		return grant, false, err
	}
	var v view
	if cs.rev > 0 && cs.session.gone.Err() == nil {
		v, err = b.look(ctx, cs, 0)
	} else {
		v, err = b.join(ctx, s, cs, 0)
	}
	if joined = err == nil; joined {
		err = b.await(ctx, cs, v)
	}
	if err == nil {
		grant, err = b.grant(ctx, cs)
	}
	return grant, joined, err
}

// join puts the key of cs at the end of the queue and returns who is ahead, with one transaction:
//
//	if the queue was not written to after the revision seen (0: if it is empty),
//	then put the key: cs is granted,
//	else read who is ahead, and if cs waits or has seen that it fits, put the key behind them.
//
// Both puts are made only if the barrier has not moved and the key is not there. If cs itself has put it already
// join looks who is ahead. A claim that does not wait and does not fit is not put; then join returns ErrTaken.
func (b *backend) join(ctx context.Context, s *session, cs *claimState, seen int64) (view, error) {
	cs.session, cs.rev = s, 0
	put := func(how string) []clientv3.Op {
		return []clientv3.Op{clientv3.OpPut(cs.key, cs.value(how), clientv3.WithLease(s.lease))}
	}
	unchanged := clientv3.Compare(clientv3.ModRevision(cs.queue), "<", seen+1).WithPrefix()
	may := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.barrier), "=", s.passed.Load()),
		clientv3.Compare(clientv3.CreateRevision(cs.key), "=", 0),
	}
	ahead := inOrder(clientv3.SortDescend, cs.enough(0))
	otherwise := []clientv3.Op{clientv3.OpGet(cs.queue, ahead...), clientv3.OpGet(s.barrier), clientv3.OpGet(cs.key)}
	queues := cs.claim.Wait || seen > 0 // so that a try too ends, however often others are put
	if queues {
		otherwise = append(otherwise, clientv3.OpTxn(may, put(queued), nil))
	}
	resp, err := b.txn(ctx, append(may, unchanged), put(free), otherwise)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		b.endSession(s)
		return view{}, errSessionGone
	case err != nil:
		cs.late = !answered(err)
		cs.unsure = cs.late || errors.Is(err, rpctypes.ErrNoSpace) // which may be said after it was done
		return view{}, fmt.Errorf("put: %w", err)
	case resp.Succeeded:
		cs.rev, cs.how = resp.Header.Revision, free
		return view{}, nil
	}
	read := func(i int) []*mvccpb.KeyValue { return resp.Responses[i].GetResponseRange().Kvs }
	v := newView(cs, parseAll(read(0)), resp.Header.Revision)
	if queues && resp.Responses[3].GetResponseTxn().Succeeded {
		cs.rev, cs.how = resp.Header.Revision, queued
		return v, nil
	}
	passed := int64(0)
	for _, kv := range read(1) {
		passed = kv.ModRevision
	}
	s.passed.Store(passed)
	if own := parseAll(read(2)); len(own) > 0 {
		if own[0].id == cs.claim.ID && own[0].lease == s.lease { // by an earlier sending of this request, or by a backup
			cs.rev, cs.how = own[0].rev, own[0].how
			return b.look(ctx, cs, 0)
		}
		b.chooseKey(cs) // the other was put by a claim that lingers, or by hand
	}
	switch {
	case v.lets(cs):
		return b.join(ctx, s, cs, resp.Header.Revision)
	case cs.claim.Wait:
		return b.join(ctx, s, cs, 0)
	}
	return view{}, driver.ErrTaken
}

// enough limits a reading of the queue to as many of those ahead, or behind, as cs has to know, and
// so many more. For whoever needs all of the limit one is enough, others need all.
func (cs *claimState) enough(more int64) clientv3.OpOption {
	if cs.claim.Weight >= cs.claim.Limit {
		return clientv3.WithLimit(1 + more)
	}
	return clientv3.WithLimit(0)
}

// inOrder makes the options to read a queue in the order of arrival, or the other way round.
func inOrder(order clientv3.SortOrder, opts ...clientv3.OpOption) []clientv3.OpOption {
	return append(opts, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, order))
}

// grant returns the grant of cs, which holds the name, when it has made sure that the lease is there and lasts for a while.
func (b *backend) grant(ctx context.Context, cs *claimState) (driver.Grant, error) {
	s := cs.session
	if s.expiry().Sub(b.clock.Now()) < s.ttl/2 { // renewals have failed of late
		if err := b.renewSession(ctx, s); err != nil {
			return driver.Grant{}, err
		}
	}
	switch {
	case s.gone.Err() != nil:
		return driver.Grant{}, errSessionGone
	case cs.rev >= 1<<(63-tokenBits):
		return driver.Grant{}, fmt.Errorf("%w: the revision needs more than 53 bits", driver.ErrRefused)
	}
	return driver.Grant{Token: cs.rev << tokenBits, Spare: min(int64(cs.claim.Spare), 1<<tokenBits-1), Until: s.expiry()}, nil
}
