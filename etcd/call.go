package etcd

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

// call makes one request. When the server says nothing for too long the request is
// given up, with an error that is none of a context, since the caller's goes on.
func (b *backend) call(ctx context.Context, do func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Not a deadline: that would be sent along with every request, and cost more
	// than it is worth. For the same reason a member that knows of no leader is told
	// to say so at once only while there is trouble; otherwise it holds on.
	begun, patience := time.Now(), b.patience.now()
	r, inner := b.underway.begin(ctx, begun.Add(patience))
	if begun.Sub(time.Unix(0, b.troubled.Load())) < troubleLasts {
		inner = clientv3.WithRequireLeader(inner)
	}
	err := do(inner)
	givenUp := b.underway.end(r)
	switch {
	case err == nil:
		b.patience.answered(time.Since(begun))
		return nil
	case !givenUp:
		if !answered(err) || isNoLeader(err) {
			b.troubled.Store(time.Now().UnixNano())
		}
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	b.troubled.Store(time.Now().UnixNano())
	b.patience.tried(begun)
	if patience >= suspicious {
		b.watches.suspect()
	}
	if b.client.ActiveConnection().GetState() == connectivity.TransientFailure {
		return b.explain(errSilence)
	}
	return errSilence
}

const (
	// troubleLasts is for how long after a request that failed more are reckoned with.
	troubleLasts = 10 * time.Second
	// suspicious is how long a silence lasts after which the streams are made anew, too.
	suspicious = 900 * time.Millisecond
)

// patience is how long one request may take before it is given up and made again, with
// another member if there is one. It matters when a leader dies: what the others have
// sent on to it is lost without a word, until they elect another.
//
// It is many times what requests take of late, within limits. A silence makes it
// longer, so that a server that has become slow is not asked again and again.
type patience struct {
	least, most time.Duration

	mu    sync.Mutex
	d     time.Duration
	grown time.Time
}

// patienceFactor is how many times as long as usual a request may take.
const patienceFactor = 20

func (p *patience) now() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.d == 0 {
		return p.most // nothing is known yet
	}
	return p.d
}

// answered takes note of how long a request took.
func (p *patience) answered(took time.Duration) {
	aim := max(p.least, min(took*patienceFactor, p.most))
	p.mu.Lock()
	defer p.mu.Unlock()
	if aim < p.d {
		aim = p.d - (p.d-aim)/8
	}
	p.d = aim
}

// tried takes note of a request begun at a moment, that met silence. What was begun
// with less patience than there is now tells nothing.
func (p *patience) tried(begun time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.d > 0 && begun.After(p.grown) {
		p.d = min(p.d*3/2, p.most)
		p.grown = time.Now()
	}
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
