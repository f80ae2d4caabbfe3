package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// checkEvery is how often the keys of holders are read, to learn of deletions by hand.
const checkEvery = 500 * time.Millisecond

// claimsPerTxn is how many holders are confirmed with one request. It is as many operations as a
// server takes unless --max-txn-ops says less, and with the longest names half as many bytes. A server
// that takes less is asked for half as many.
const claimsPerTxn = 128

// wantedEvery is at which of all confirmations those that hold together learn who waits behind them.
const wantedEvery = 10

// Renew renews the session's lease when it is time, and confirms the keys of the holders
// with one request for each claimsPerTxn of them. A renewal that failed makes it unknown until when they hold.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var renewal sync.WaitGroup
	var failure error
	if s := b.session.Load(); s != nil && s.expiry().Sub(b.clock.Now()) <= s.ttl*2/3+checkEvery/2 {
		renewal.Go(func() { failure = b.renewSession(ctx, s) })
	}
	there := b.confirm(ctx, claims, report)
	renewal.Wait()
	for _, c := range there {
		switch s := c.State.(*claimState).session; {
		case s.gone.Err() != nil:
			report(c, 0, errors.Join(driver.ErrGone, errSessionGone))
		case failure != nil:
			report(c, 0, failure)
		default:
			report(c, s.expiry(), nil)
		}
	}
}

// confirm reads the keys of claims, reports those that are gone and returns the others. What cannot be read counts as there: it
// lives as long as the lease does. Who is behind a claim is read, too: of those that hold together by the first of each queue
// only, and less often, as there may be many behind it. If somebody waits there, all claims of that
// queue are told; among permits a waiter may be overlooked.
func (b *backend) confirm(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) (there []*driver.Claim) {
	waits := make(map[string]bool) // whether somebody waits, by queue
	all := b.checks.Add(1)%wantedEvery == 1
	for len(claims) > 0 {
		halved := b.halved.Load()
		part := claims[:min(max(claimsPerTxn>>halved, 1), len(claims))]
		var reads []clientv3.Op
		for _, c := range part {
			cs := c.State.(*claimState)
			read := clientv3.OpGet(cs.key)
			if _, known := waits[cs.queue]; !known && (all || c.Weight >= c.Limit) {
				waits[cs.queue] = false
				read = clientv3.OpGet(cs.queue, inOrder(clientv3.SortAscend, clientv3.WithMinCreateRev(cs.rev), cs.enough(1))...)
			}
			reads = append(reads, read)
		}
		resp, err := b.txn(ctx, nil, reads, nil)
		if errors.Is(err, rpctypes.ErrTooManyOps) && len(part) > 1 {
			b.halved.CompareAndSwap(halved, halved+1) // unless another confirmation has done so
			continue
		}
		if err != nil {
			b.log.Debug("locker: holders not confirmed", "backend", backendName, "error", err)
			break
		}
		for i, c := range part {
			cs := c.State.(*claimState)
			entries := parseAll(resp.Responses[i].GetResponseRange().Kvs)
			if len(entries) == 0 || entries[0].key != cs.key || entries[0].rev != cs.rev {
				report(c, 0, driver.ErrGone)
				continue
			}
			there = append(there, c)
			waits[cs.queue] = waits[cs.queue] || blocks(entries)
			if waits[cs.queue] && c.Wanted != nil {
				c.Wanted()
			}
		}
		claims = claims[len(part):]
	}
	return append(there, claims...)
}

// blocks reports whether one of entries has to wait, even if nobody is ahead of the first.
func blocks(entries []entry) bool {
	var ahead int64
	return slices.ContainsFunc(entries, func(e entry) bool {
		waits := ahead > 0 && !driver.Fits(ahead, e.weight, e.limit)
		ahead += int64(e.weight)
		return waits
	})
}

// renewSession renews the lease of s once. When the server has no such lease it ends the session. After one that failed every second
// renewal goes by a connection of its own, to each endpoint in turn: a connection that a firewall has forgotten looks
// like a server that has fallen silent, and the client keeps it until TCP gives up. With a password one of the client's
// connections has to live: it logs in by them first, for each stream.
func (b *backend) renewSession(caller context.Context, s *session) error {
	patience := min(max(s.ttl/6, 300*time.Millisecond), 2*time.Second)
	ctx, cancel := context.WithTimeoutCause(clientv3.WithRequireLeader(caller), patience, errSilence)
	defer cancel()
	conn := b.client.ActiveConnection()
	if s.failing.Load() {
		if n := int(s.tries.Add(1)); n%2 == 1 { // some may run at once
			endpoints := b.client.Endpoints()
			own, err := b.client.Dial(endpoints[n/2%len(endpoints)])
			if err != nil {
				return err
			}
			defer own.Close()
			conn = own
		}
	}
	sent := b.clock.Now()
	resp, err := sendRenewal(ctx, s.lease, conn)
	switch {
	case err == nil && resp.TTL > 0:
		s.sent.Store(int64(sent))
		s.failing.Store(false)
		s.tries.Store(0)
		return nil
	case err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound):
		b.endSession(s)
		return errSessionGone
	}
	if caller.Err() == nil {
		s.failing.Store(true)
	}
	if context.Cause(ctx) == errSilence {
		b.subscription.restart()
		return errSilence
	}
	return err
}

// sendRenewal sends one renewal. The client's KeepAliveOnce would ask again without any pause while there is no server, and
// its KeepAlive does not say when it sent what was answered. Each renewal has a stream of its own, which ends with ctx, and
// thereby goes to another member in turn, which is how one that no longer answers is found out.
func sendRenewal(ctx context.Context, lease clientv3.LeaseID, conn *grpc.ClientConn) (*pb.LeaseKeepAliveResponse, error) {
	stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(ctx)
	if err != nil {
		return nil, rpctypes.Error(err)
	}
	_ = stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}) // Recv says why it failed
	resp, err := stream.Recv()
	return resp, rpctypes.Error(err)
}
