package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const backendName = "etcd"

// checkEvery is how often the keys of holders are read, to learn of deletions by hand.
const checkEvery = 500 * time.Millisecond

// claimsPerTxn is how many holders are confirmed with one request. It is as many operations as a
// server takes unless --max-txn-ops says less, and with the longest names half as many bytes.
const claimsPerTxn = 128

var (
	_ driver.Inspector = (*backend)(nil)
	_ driver.Evictor   = (*backend)(nil)
	_ driver.Weigher   = (*backend)(nil)
	_ driver.Lingerer  = (*backend)(nil)
)

// backend is the driver of one Locker.
type backend struct {
	client *clientv3.Client
	clock  driver.Clock
	log    *slog.Logger
	ttl    time.Duration
	prefix string // ends with "/"
	id     string // of this Locker, in its keys

	life context.Context // ends with Close
	end  context.CancelFunc

	granting chan struct{} // taken by whoever grants the session's lease
	session  atomic.Pointer[session]

	keysMu sync.Mutex
	keys   map[string]bool // those of the claims of this Locker

	subscription subscription
}

func newBackend(client *clientv3.Client, cfg *locker.Config, prefix string) *backend {
	b := &backend{
		client:   client,
		clock:    cfg.Clock,
		log:      cfg.Logger,
		ttl:      cfg.TTL,
		prefix:   prefix,
		id:       fmt.Sprintf("%016x", rand.Uint64()),
		granting: make(chan struct{}, 1),
		keys:     make(map[string]bool),
	}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend:   backendName,
		Fair:      true,
		Fenced:    true,
		Shared:    true,
		Permits:   true,
		Inspect:   true,
		Evict:     true,
		Downgrade: true,
		Linger:    true,
		Session:   true,
		Prompt:    true,
		// A lease of its own would cost a claim two more requests.
		LeaseBySession: true,
		Check:          checkEvery,
	}
}

// Close ends the session, and with its lease every key that may be left under it.
func (b *backend) Close(ctx context.Context) error {
	b.end()
	if s := b.session.Load(); s != nil {
		return b.revoke(ctx, s.lease)
	}
	return nil
}

// claimState is what the driver knows of a claim. Acquire writes it, and Lighten the
// weight; Renew, which may run beside all others, reads only what Acquire has written.
type claimState struct {
	claim  *driver.Claim
	queue  string // what the keys of the name begin with
	key    string
	weight int32 // as it was written last
	joined time.Time

	session *session // whose lease the key was put under last
	rev     int64    // create revision of the key; 0: not known to exist
	how     string   // free or queued, as in its value
	unsure  bool     // the key may exist although rev is 0
	late    bool     // a request that puts it may still arrive
}

// stateOf returns the state of a claim that Acquire was called for.
func stateOf(c *driver.Claim) *claimState {
	cs, _ := c.State.(*claimState)
	return cs
}
