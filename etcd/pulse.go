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

	mu     sync.Mutex
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

func newPulse(life context.Context, remote pb.LeaseClient, keep bool) *pulse {
	return &pulse{remote: remote, life: life, keep: keep}
}

// beat renews the lease once and returns the time it has to live, 0 if it is gone.
func (p *pulse) beat(ctx context.Context, lease clientv3.LeaseID) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ttl, err := p.exchange(ctx, lease)
	if p.cancel != nil && (err != nil || !p.keep) {
		p.cancel()
		p.stream, p.cancel = nil, nil
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return ttl, err
}

func (p *pulse) exchange(ctx context.Context, lease clientv3.LeaseID) (time.Duration, error) {
	if p.stream == nil {
		life, cancel := context.WithCancel(clientv3.WithRequireLeader(p.life))
		p.cancel = cancel
		defer context.AfterFunc(ctx, cancel)()
		stream, err := p.remote.LeaseKeepAlive(life)
		if err != nil {
			return 0, rpctypes.Error(err)
		}
		p.stream = stream
	} else {
		defer context.AfterFunc(ctx, p.cancel)()
	}
	if err := p.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}); err != nil {
		// The reason is to be had from Recv.
		if _, reason := p.stream.Recv(); reason != nil {
			err = reason
		}
		return 0, rpctypes.Error(err)
	}
	r, err := p.stream.Recv()
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	return time.Duration(r.TTL) * time.Second, nil
}
