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
		cs := stateOf(c)
		switch {
		case gone[c]:
			report(c, 0, driver.ErrGone)
		case c.Lease:
			report(c, 0, nil)
		case cs.session.isGone():
			report(c, 0, errors.Join(driver.ErrGone, errSessionGone))
		default:
			report(c, cs.session.expiry(), nil)
		}
	}
}

// due reports whether the lease is to be renewed now, given how often that is asked.
func (s *session) due(now driver.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.check || now.Sub(s.sent) >= s.ttl/3-checkEvery/2
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
			} else if cs.keepsWaiting(entries) && c.Wanted != nil {
				c.Wanted()
			}
		}
		claims = claims[n:]
	}
	return gone
}

// fromOwn reads the queue from the key of cs on: with the one behind it if cs needs all of
// the limit, otherwise to the end.
func (cs *claimState) fromOwn() clientv3.Op {
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithMinCreateRev(cs.rev), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend)}
	if n := cs.readAhead(); n > 0 {
		opts = append(opts, clientv3.WithLimit(n+1))
	}
	return clientv3.OpGet(cs.queue, opts...)
}

// keepsWaiting reports whether a claim waits because of the first of entries, even if
// nobody is ahead of that.
func (cs *claimState) keepsWaiting(entries []entry) bool {
	var ahead int64
	return slices.ContainsFunc(entries, func(e entry) bool {
		waits := ahead > 0 && !driver.Fits(ahead, e.weight, e.limit)
		ahead += int64(e.weight)
		return waits
	})
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
		s.renewed(sent, time.Duration(resp.TTL)*time.Second)
		if s.isOlder(resp.Header) {
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

// isOlder reports whether a member has gone back to an older revision: the cluster was
// given an older state back, and watches wait for revisions that were reached before.
func (s *session) isOlder(h *pb.ResponseHeader) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.members[h.MemberId]
	s.members[h.MemberId] = h.Revision
	return h.Revision < before
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
	s.mu.Lock()
	stream := s.kept
	s.kept = nil
	s.mu.Unlock()
	if stream == nil || conn != b.client.ActiveConnection() {
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
	err := stream.rpc.Send(&pb.LeaseKeepAliveRequest{ID: int64(s.lease)})
	resp, reason := stream.rpc.Recv() // also says why it could not be sent
	if err == nil {
		err = reason
	}
	if !stop() || err != nil || b.client.Username == "" || conn != b.client.ActiveConnection() {
		stream.end()
		return resp, rpctypes.Error(reason)
	}
	s.mu.Lock()
	old := s.kept
	s.kept = stream
	s.mu.Unlock()
	if old != nil {
		old.end()
	}
	return resp, nil
}
