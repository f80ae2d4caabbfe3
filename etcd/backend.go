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
	"github.com/seed80cd6120/locker/internal/crowd"
	"github.com/seed80cd6120/locker/internal/names"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const backendName = "etcd"

var _ driver.Relayer = (*backend)(nil)

// backend is the driver of one Locker.
type backend struct {
	client *clientv3.Client
	clock  driver.Clock
	log    *slog.Logger
	ttl    time.Duration
	prefix string // ends with "/"
	id     string // of this Locker, in its keys

	// fallback is how often a waiter looks at its queue although nobody told it
	// to, in case a message was lost.
	fallback time.Duration

	life context.Context // ends with Close
	end  context.CancelFunc

	granting chan struct{} // taken by whoever grants a lease for all
	session  atomic.Pointer[session]
	pulse    *pulse
	watches  *watches
	sweeping sync.Mutex
	asked    time.Time // when the keys under the lease were asked for; by sweep

	patience   patience
	underway   underway
	leases     pb.LeaseClient
	directKV   pb.KVClient // nil if there is none; see directKV
	crowd      crowd.Crowd
	troubled   atomic.Int64 // when a request failed last, in Unix nanoseconds
	spaceFound atomic.Pointer[string]

	mu      sync.Mutex
	entries map[string]*entry          // by key; nil where a key is not to be used
	queued  map[string]int             // entries, by queue
	coming  map[string]<-chan struct{} // entry.arrives of the latest that is joining, by queue
	habits  map[string]habit           // by queue
}

func newBackend(client *clientv3.Client, cfg *locker.Config, prefix string) *backend {
	b := &backend{
		client:   client,
		clock:    cfg.Clock,
		log:      cfg.Logger,
		ttl:      cfg.TTL,
		prefix:   prefix,
		id:       fmt.Sprintf("%016x", rand.Uint64()),
		fallback: time.Minute,
		// etcd itself gives up after 7 s.
		patience: patience{least: 500 * time.Millisecond, most: 2 * time.Second},
		granting: make(chan struct{}, 1),

		entries: make(map[string]*entry),
		queued:  make(map[string]int),
		coming:  make(map[string]<-chan struct{}),
		habits:  make(map[string]habit),
	}
	b.life, b.end = context.WithCancel(context.Background())
	conn := client.ActiveConnection()
	b.leases = pb.NewLeaseClient(conn)
	b.directKV = directKV(client)
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
