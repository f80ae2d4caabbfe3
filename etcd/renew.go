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

// Renew renews the session's lease when it is time, and confirms the keys of the holders
// with one request for each perTxn of them.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var renewal sync.WaitGroup
	if s := b.session.Load(); s != nil && s.due(b.clock.Now()) {
		renewal.Go(func() {
			if err := b.renewSession(ctx, s); err != nil {
				b.log.Debug("locker: lease not renewed", "backend", backendName, "error", err)
			}
		})
	}
	gone := b.confirm(ctx, claims)
	renewal.Wait()
	for _, c := range claims {
		switch s := stateOf(c).session; {
		case gone[c]:
			report(c, 0, driver.ErrGone)
		case s.isGone():
			report(c, 0, errors.Join(driver.ErrGone, errSessionGone))
		default:
			report(c, s.expiry(), nil)
		}
	}
}

// confirm reads the keys of claims and returns those that are gone. What cannot be read
// counts as there: it lives as long as the lease does. Where somebody waits behind a
// claim it says so.
func (b *backend) confirm(ctx context.Context, claims []*driver.Claim) (gone map[*driver.Claim]bool) {
	gone = make(map[*driver.Claim]bool)
	for len(claims) > 0 {
		n := min(int(b.perTxn.Load()), len(claims))
		var reads []clientv3.Op
		for _, c := range claims[:n] {
			reads = append(reads, stateOf(c).fromOwn())
		}
		resp, err := b.txn(ctx, nil, reads, nil)
		if n > 1 && (errors.Is(err, rpctypes.ErrTooManyOps) || errors.Is(err, rpctypes.ErrRequestTooLarge)) {
			b.perTxn.Store(int64(n / 2))
			continue
		}
		if err != nil {
			b.log.Debug("locker: holders not confirmed", "backend", backendName, "error", err)
			return gone
		}
		for i, c := range claims[:n] {
			cs := stateOf(c)
			entries := parseAll(resp.Responses[i].GetResponseRange().Kvs)
			if len(entries) == 0 || entries[0].key != cs.key || entries[0].rev != cs.rev {
				gone[c] = true
				cs.session.suspect() // perhaps it was not the key that went, but the lease
			} else if blocks(entries) && c.Wanted != nil {
				c.Wanted()
			}
		}
		claims = claims[n:]
	}
	return gone
}

// fromOwn reads the queue from the key of cs on.
func (cs *claimState) fromOwn() clientv3.Op {
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithMinCreateRev(cs.rev), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)}
	if n := cs.enough(); n > 0 {
		opts = append(opts, clientv3.WithLimit(n+1))
	}
	return clientv3.OpGet(cs.queue, opts...)
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

// due reports whether the lease is to be renewed now, given how often that is asked.
func (s *session) due(now driver.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.check || now.Sub(s.sent) >= s.ttl/3-checkEvery/2
}

// renewSession renews the lease of s once. When the server has no such lease it ends the
// session. After a renewal that was not answered every second one goes by a
// connection of its own: a connection that a firewall has forgotten looks like a server
// that has fallen silent, and the client keeps it until TCP gives up.
func (b *backend) renewSession(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeoutCause(ctx, min(max(s.ttl/6, 300*time.Millisecond), 2*time.Second), errSilence)
	defer cancel()
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	conn := b.client.ActiveConnection()
	if silent%2 == 1 {
		endpoints := b.client.Endpoints()
		own, err := b.client.Dial(endpoints[silent/2%len(endpoints)])
		if err != nil {
			return err
		}
		defer own.Close()
		conn = own
	}
	sent := b.clock.Now()
	resp, err := b.sendRenewal(ctx, s, conn)
	switch {
	case err == nil && resp.TTL > 0:
		if s.renewed(sent, resp) {
			b.restartWatches()
		}
		return nil
	case err == nil || errors.Is(err, rpctypes.ErrLeaseNotFound):
		b.endSession(s)
		return errSessionGone
	case context.Cause(ctx) == errSilence:
		s.mu.Lock()
		s.silent++
		s.mu.Unlock()
		b.restartWatches()
		return errSilence
	}
	return err
}

// renewed takes in the answer to a renewal that was sent at a moment: the server began to
// count no earlier than that. It reports whether the member has gone back to an older
// revision: the cluster was given an older state back, and watches wait for revisions that
// were reached before.
func (s *session) renewed(sent driver.Instant, resp *pb.LeaseKeepAliveResponse) (older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = 0
	if sent >= s.sent {
		s.sent, s.until, s.check = sent, sent.Add(time.Duration(resp.TTL)*time.Second), false
	}
	member, rev := resp.Header.MemberId, resp.Header.Revision
	older = rev < s.members[member]
	s.members[member] = rev
	return older
}

// renewalStream carries renewals, one at a time.
type renewalStream struct {
	rpc pb.Lease_LeaseKeepAliveClient
	end context.CancelFunc
}

// sendRenewal sends one renewal. The client's KeepAliveOnce would ask again without any pause
// while there is no server, and its KeepAlive does not say when it sent what was answered.
// Each renewal has a stream of its own and thereby goes to another member in turn, which is
// how one that no longer answers is found out; but with a password, for which each new
// stream logs in, one stream is kept.
func (b *backend) sendRenewal(ctx context.Context, s *session, conn *grpc.ClientConn) (*pb.LeaseKeepAliveResponse, error) {
	keep := b.client.Username != "" && conn == b.client.ActiveConnection()
	var stream *renewalStream
	if keep {
		stream = s.kept.Swap(nil)
	}
	if stream == nil {
		life, cancel := context.WithCancel(clientv3.WithRequireLeader(b.life))
		stop := context.AfterFunc(ctx, cancel)
		rpc, err := pb.NewLeaseClient(conn).LeaseKeepAlive(life)
		if stop(); err != nil {
			cancel()
			return nil, rpctypes.Error(err)
		}
		stream = &renewalStream{rpc, cancel}
	}
	stop := context.AfterFunc(ctx, stream.end)
	_ = stream.rpc.Send(&pb.LeaseKeepAliveRequest{ID: int64(s.lease)}) // Recv says why it failed
	resp, err := stream.rpc.Recv()
	if !stop() || err != nil || !keep || !s.kept.CompareAndSwap(nil, stream) {
		stream.end()
	}
	return resp, rpctypes.Error(err)
}
