package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/names"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

const backendName = "etcd"

// backend is the driver of one Locker.
type backend struct {
	client *clientv3.Client
	clock  driver.Clock
	log    *slog.Logger
	ttl    time.Duration
	prefix string // ends with "/"
	id     string // of this Locker, in its keys
	pace   pace

	life context.Context // ends with Close
	end  context.CancelFunc

	granting chan struct{} // taken by whoever grants a lease for all
	session  atomic.Pointer[session]
	pulse    *pulse
	watches  *watches
	sweeping sync.Mutex
	asked    time.Time // when the keys under the lease were asked for; by sweep

	leases     pb.LeaseClient
	crowded    atomic.Int32 // if not 0, acquisitions have met others of late
	troubled   atomic.Int64 // when a request failed last, in Unix nanoseconds
	spaceFound atomic.Pointer[string]

	mu      sync.Mutex
	entries map[string]*entry // by key; nil where a key is not to be used
	queued  map[string]int    // entries, by queue
}

// pace holds the times that tests shorten.
type pace struct {
	// patience is how long one request may take before it is given up and made
	// again, with another member if there is one. etcd itself gives up after 7 s.
	patience time.Duration
	// fallback is how often a waiter looks at its queue although nobody told it
	// to, in case a message was lost.
	fallback time.Duration
}

func newBackend(client *clientv3.Client, cfg *locker.Config, prefix string) *backend {
	b := &backend{
		client:   client,
		clock:    cfg.Clock,
		log:      cfg.Logger,
		ttl:      cfg.TTL,
		prefix:   prefix,
		id:       fmt.Sprintf("%016x", rand.Uint64()),
		pace:     pace{patience: 2 * time.Second, fallback: time.Minute},
		granting: make(chan struct{}, 1),

		entries: make(map[string]*entry),
		queued:  make(map[string]int),
	}
	b.life, b.end = context.WithCancel(context.Background())
	conn := client.ActiveConnection()
	b.leases = pb.NewLeaseClient(conn)
	b.watches = newWatches(b.life, pb.NewWatchClient(conn))
	b.pulse = newPulse(b.life, b.leases, client.Username != "")
	return b
}

func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: backendName,
		Fair:    true,
		Fenced:  true,
		Session: true,
		Prompt:  true,
		Check:   checkEvery,
	}
}

// Close ends the session, and with its lease every key that may be left.
func (b *backend) Close(ctx context.Context) error {
	b.end()
	if s := b.session.Load(); s != nil {
		return b.revoke(ctx, s.lease)
	}
	return nil
}

// queueOf returns what the keys of name begin with. An escaped name holds no "/",
// so that no queue is part of another.
func (b *backend) queueOf(name string) string {
	return b.prefix + names.Escape(name) + "/"
}

// fenceOf returns a key that no name can have: "!" is always escaped.
func (b *backend) fenceOf(lease clientv3.LeaseID) string {
	return b.prefix + "!fence/" + strconv.FormatInt(int64(lease), 16)
}

// call makes one request. When the server says nothing for too long the request is
// given up, with an error that is none of a context, since the caller's goes on.
func (b *backend) call(ctx context.Context, request func(ctx context.Context) error) error {
	// Not a deadline: that would be sent along with every request, and cost more
	// than it is worth. For the same reason a member that knows of no leader is told
	// to say so at once only while there is trouble; otherwise it holds on.
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(b.pace.patience, cancel).Stop()
	troubled := time.Since(time.Unix(0, b.troubled.Load())) < troubleLasts
	if troubled {
		inner = clientv3.WithRequireLeader(inner)
	}
	err := request(inner)
	switch {
	case err == nil:
		return nil
	case inner.Err() == nil:
		if !answered(err) || isNoLeader(err) {
			b.troubled.Store(time.Now().UnixNano())
		}
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	b.troubled.Store(time.Now().UnixNano())
	b.watches.suspect()
	if b.client.ActiveConnection().GetState() == connectivity.TransientFailure {
		return b.explain(errSilence)
	}
	return errSilence
}

// troubleLasts is for how long after a request that failed more are reckoned with.
const troubleLasts = 10 * time.Second

// txn makes one transaction.
func (b *backend) txn(ctx context.Context, ifs []clientv3.Cmp, then, otherwise []clientv3.Op) (resp *clientv3.TxnResponse, err error) {
	err = b.call(ctx, func(ctx context.Context) (err error) {
		resp, err = b.client.Txn(ctx).If(ifs...).Then(then...).Else(otherwise...).Commit()
		return err
	})
	return resp, err
}

// watch waits for a deletion of key after a revision; see watches.open.
func (b *backend) watch(ctx context.Context, key string, after int64) (t *tap, from int64, err error) {
	err = b.call(ctx, func(ctx context.Context) (err error) {
		t, from, err = b.watches.open(ctx, b.space()+key, after)
		return err
	})
	return t, from, err
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
	p.next = min(d*2, time.Second)
	t := time.NewTimer(d/2 + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	p.last = time.Now()
}
