package etcd

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// pulse sends the renewals of a lease. The client's own KeepAlive does not say when
// it sent what the server has answered, and its KeepAliveOnce asks again without
// any pause while there is no server.
type pulse struct {
	remote pb.LeaseClient
	life   context.Context

	// keep: the client logs in anew for each stream, which costs the server a
	// tenth of a second, so that with a password one stream is kept. Without one
	// each renewal has its own and thereby goes to another member in turn, which is
	// how one that no longer answers is found out.
	keep bool

	mu   sync.Mutex
	kept *beatStream
}

// beatStream carries renewals, one at a time.
type beatStream struct {
	rpc pb.Lease_LeaseKeepAliveClient
	end context.CancelFunc
}

func newPulse(life context.Context, remote pb.LeaseClient, keep bool) *pulse {
	return &pulse{remote: remote, life: life, keep: keep}
}

// beat renews the lease once and returns the time it has to live, 0 if it is gone.
func (p *pulse) beat(ctx context.Context, lease clientv3.LeaseID) (time.Duration, error) {
	s, err := p.stream(ctx)
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	stop := context.AfterFunc(ctx, s.end)
	ttl, err := s.beat(lease)
	if !stop() || err != nil || !p.giveBack(s) {
		s.end()
	}
	return ttl, rpctypes.Error(err)
}

// stream returns the stream that is kept, or a new one.
func (p *pulse) stream(ctx context.Context) (*beatStream, error) {
	p.mu.Lock()
	s := p.kept
	p.kept = nil
	p.mu.Unlock()
	if s != nil {
		return s, nil
	}
	life, cancel := context.WithCancel(clientv3.WithRequireLeader(p.life))
	stop := context.AfterFunc(ctx, cancel)
	rpc, err := p.remote.LeaseKeepAlive(life)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &beatStream{rpc, cancel}, nil
}

// giveBack keeps a stream for the next renewal, if one is to be kept.
func (p *pulse) giveBack(s *beatStream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.keep || p.kept != nil {
		return false
	}
	p.kept = s
	return true
}

func (s *beatStream) beat(lease clientv3.LeaseID) (time.Duration, error) {
	if err := s.rpc.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}); err != nil {
		// The reason is to be had from Recv.
		if _, reason := s.rpc.Recv(); reason != nil {
			err = reason
		}
		return 0, err
	}
	r, err := s.rpc.Recv()
	if err != nil {
		return 0, err
	}
	return time.Duration(r.TTL) * time.Second, nil
}
