package etcd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// place is where an entry stands in its queue.
type place struct {
	ahead int    // how many stand before it, as far as known; none: it holds the name
	key   string // the one directly before it
	born  int64  // its create revision
	rev   int64  // the revision at which this was so

	tells *mvccpb.KeyValue // it, if its deletion may tell as much as a look; see habit
}

// Acquire takes a name, or waits for it in the queue.
func (b *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	e := own(c)
	if e == nil {
		e = b.newEntry(c)
	}
	var grant driver.Grant
	var err error
	if c.Wait {
		grant, err = b.queueFor(ctx, e)
	} else {
		grant, err = b.askFor(ctx, e)
	}
	if errors.Is(err, driver.ErrTaken) {
		b.forget(e)
	}
	return grant, b.explain(err)
}

// askFor takes the name if it is free. What passes in a moment, such as a change of
// the leader, is not worth an error.
func (b *backend) askFor(ctx context.Context, e *entry) (driver.Grant, error) {
	begun := time.Now()
	for pause := (backoff{}); ; {
		p, err := b.step(ctx, e, b.enterIfFree)
		if err == nil && p.ahead > 0 {
			return driver.Grant{}, driver.ErrTaken
		}
		if err == nil {
			var g driver.Grant
			if g, err = b.grant(ctx, e); err == nil {
				return g, nil
			}
		}
		switch {
		case ctx.Err() != nil || lasting(err):
			return driver.Grant{}, err
		case errors.Is(err, errFence), errors.Is(err, errSessionGone):
		case time.Since(begun) < moment, errors.Is(err, errSilence) && time.Since(begun) < 2*b.patience.most:
			pause.sleep(ctx)
		default:
			return driver.Grant{}, err
		}
	}
}

// moment is how long a question that need not wait is asked again.
const moment = time.Second

// queueFor joins the queue and waits until e is the first in it, through outages
// and through the loss of its place.
func (b *backend) queueFor(ctx context.Context, e *entry) (driver.Grant, error) {
	var trouble error // the latest, if there is still any
	b.comes(e)
	for pause := (backoff{}); ; {
		p, err := b.stand(ctx, e)
		b.arrived(e, p)
		if err == nil {
			trouble = nil
			err = b.await(ctx, e, p)
		}
		if err == nil {
			var g driver.Grant
			if g, err = b.grant(ctx, e); err == nil {
				return g, nil
			}
		}
		switch {
		case ctx.Err() != nil && trouble != nil:
			return driver.Grant{}, trouble
		case ctx.Err() != nil || lasting(err):
			return driver.Grant{}, err
		case errors.Is(err, errSessionGone), errors.Is(err, errEntryGone):
			e.rev.Store(0)
		case errors.Is(err, errFence), errors.Is(err, errForeign):
			continue
		}
		trouble = err
		b.log.Debug("locker: still waiting", "backend", backendName, "name", e.claim.Name, "error", err)
		pause.sleep(ctx)
	}
}

// stand says where e stands in its queue, and has it enter that if need be.
func (b *backend) stand(ctx context.Context, e *entry) (place, error) {
	joined := e.joined
	e.joined = place{}
	switch {
	case e.rev.Load() == 0 || e.session.isGone():
		return b.step(ctx, e, b.enter)
	case joined.rev > 0:
		return joined, nil
	}
	return b.look(ctx, e, 0)
}

// step has e enter its queue, one way or the other, under the present session.
func (b *backend) step(ctx context.Context, e *entry, enter func(context.Context, *session, *entry) (place, error)) (place, error) {
	s, err := b.live(ctx)
	if err != nil {
		return place{}, err
	}
	p, err := enter(ctx, s, e)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		b.endSession(s)
		err = errSessionGone
	}
	if err == nil && e.rev.Load() > 0 {
		err = b.findSpace(ctx, e)
	}
	return p, err
}

// enter puts the entry at the end of its queue and says where that is, with one
// request as a rule. The server takes less time for the question whether anybody is
// there than for the one who; so that is asked first where nobody is expected.
func (b *backend) enter(ctx context.Context, s *session, e *entry) (place, error) {
	if !b.crowd.Expected() && !e.sown && len(e.doubts) == 0 && b.alone(e) {
		resp, err := b.putIfFree(ctx, s, e)
		if err != nil || resp.Succeeded {
			return place{rev: e.rev.Load()}, err
		}
	}
	p, err := b.enterBehind(ctx, s, e)
	if err == nil {
		b.crowd.Met(p.ahead > 0)
	}
	return p, err
}

// enterBehind enters whoever is there. An entry that is in the queue already, by an
// earlier request whose answer was lost, stays where it is.
func (b *backend) enterBehind(ctx context.Context, s *session, e *entry) (place, error) {
	watched := s.fenceMark() > 0 // the fence can be
	resp, err := b.put(ctx, s, e, unlessThere(s, e), []clientv3.Op{lastOf(e.queue)}, clientv3.OpGet(e.key))
	if err != nil {
		return place{}, err
	}
	got := resp.Responses[0].GetResponseRange()
	switch {
	case resp.Succeeded:
		return b.joined(e, got, resp.Header.Revision, watched), nil
	case len(got.Kvs) == 0:
		return place{}, errFence
	case !e.wrote(got.Kvs[0].Value):
		b.move(e)
		return place{}, errForeign
	}
	e.session = s
	e.rev.Store(got.Kvs[0].CreateRevision)
	return b.look(ctx, e, 0)
}

// unlessThere are the conditions under which e enters, whoever is there.
func unlessThere(s *session, e *entry) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.fence), "=", s.fenceMark()),
		clientv3.Compare(clientv3.CreateRevision(e.key), "=", 0),
	}
}

// joined says where e stands, which joined its queue at a revision behind those that were the
// last two then. watched: there was a fence, which can be.
func (b *backend) joined(e *entry, last *pb.RangeResponse, rev int64, watched bool) place {
	p := place{ahead: int(last.Count), rev: rev}
	if p.ahead > 0 {
		p.key, p.born = string(last.Kvs[0].Key), last.Kvs[0].CreateRevision
		if watched {
			p.tells = e.telling(last.Kvs, last.Count)
		}
		e.follows = strings.HasPrefix(p.key, b.ownIn(e.queue))
	}
	b.accustom(e, p)
	return p
}

// enterIfFree puts the entry into the queue only if that is empty. Otherwise the
// server writes nothing.
func (b *backend) enterIfFree(ctx context.Context, s *session, e *entry) (place, error) {
	resp, err := b.putIfFree(ctx, s, e, firstOf(e.queue))
	if err != nil || resp.Succeeded {
		return place{rev: e.rev.Load()}, err
	}
	first := resp.Responses[0].GetResponseRange().Kvs
	switch {
	case len(first) == 0:
		return place{}, errFence
	case e.wrote(first[0].Value): // by an earlier request whose answer was lost
		e.session = s
		e.rev.Store(first[0].CreateRevision)
		return place{rev: resp.Header.Revision}, nil
	}
	return place{ahead: 1}, nil
}

// putIfFree puts the entry's key if its queue is empty.
func (b *backend) putIfFree(ctx context.Context, s *session, e *entry, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if b.directKV != nil && len(otherwise) == 0 && len(e.doubts) == 0 {
		resp, err := b.direct(ctx, putAlone(s, e))
		if err != nil {
			return nil, e.notPut(s, err)
		}
		e.isPut(s, resp)
		return resp, nil
	}
	ifs := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(s.fence), "=", s.fenceMark()),
		// True if no key of the queue has another revision: if there is none.
		clientv3.Compare(clientv3.CreateRevision(e.queue), "=", 0).WithPrefix(),
	}
	return b.put(ctx, s, e, ifs, nil, otherwise...)
}

// lastOf reads the last two of a queue.
func lastOf(queue string) clientv3.Op {
	return clientv3.OpGet(queue, clientv3.WithPrefix(), clientv3.WithLimit(2),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))
}

func firstOf(queue string) clientv3.Op {
	return clientv3.OpGet(queue, clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// put makes a transaction that puts the entry's key, after the operations in then, if
// all of ifs hold. If not it makes those in otherwise, if there are any, and reads the
// fence. If the fate of an earlier one is not known it moves the fence as well; see
// session. So does the first one of which there are expectations: then there is a fence to
// be watched; see habit.
func (b *backend) put(ctx context.Context, s *session, e *entry, ifs []clientv3.Cmp, then []clientv3.Op, otherwise ...clientv3.Op) (*clientv3.TxnResponse, error) {
	then = append(then, clientv3.OpPut(e.key, e.value(), clientv3.WithLease(s.lease)))
	fence := len(otherwise)
	if fence > 0 {
		otherwise = append(otherwise, clientv3.OpGet(s.fence, clientv3.WithKeysOnly()))
	}
	doubt := slices.Contains(e.doubts, s) || e.expects != "" && s.fenceMark() == 0
	if doubt {
		move := moveFence(s)
		then, otherwise = append(then, move), append(otherwise, move)
	}
	known := s.known()
	resp, err := b.txn(ctx, ifs, then, otherwise)
	if err != nil {
		return nil, e.notPut(s, err)
	}
	switch {
	case doubt:
		s.moved(resp.Header.Revision, resp.Header.Revision, known)
		e.settle(s)
	case !resp.Succeeded && fence > 0:
		s.moved(modRevision(resp.Responses[fence].GetResponseRange().Kvs), resp.Header.Revision, known)
	}
	e.isPut(s, resp)
	return resp, nil
}

func moveFence(s *session) clientv3.Op {
	return clientv3.OpPut(s.fence, "", clientv3.WithLease(s.lease))
}

func modRevision(kvs []*mvccpb.KeyValue) int64 {
	if len(kvs) == 0 {
		return 0
	}
	return kvs[0].ModRevision
}

// grant makes the first of a queue a holder.
func (b *backend) grant(ctx context.Context, e *entry) (driver.Grant, error) {
	until, err := b.lifetime(ctx, e)
	if err != nil {
		return driver.Grant{}, err
	}
	b.hold(e)
	return driver.Grant{Token: e.rev.Load(), Until: until}, nil
}

// lifetime says until when the server certainly keeps the entry.
func (b *backend) lifetime(ctx context.Context, e *entry) (driver.Instant, error) {
	if e.claim.Lease {
		return b.leaseOwn(ctx, e)
	}
	s := e.session
	short := func() bool { return s.expiry().Sub(b.clock.Now()) < s.ttl/2 }
	if short() { // renewals have failed of late
		if err := b.refresh(ctx, s, short); err != nil {
			return 0, err
		}
	}
	return s.expiry(), nil
}
