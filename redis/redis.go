// Package redis is the locker backend for one logical Redis: a single server, a
// master that Sentinels look after, or a Cluster.
//
//	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
//	l, err := redis.New(client)
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// Redis 6.2 or later is needed, for a Cluster 7.0 or later (sharded pub/sub).
//
// # What is on the server
//
// The names are divided among 256 buckets by a checksum; a bucket's two digits
// are the hash tag of all keys of its names, so that in a Cluster they are in one
// slot. For the name "orders/42", which is in bucket d7:
//
//	locker:{d7}:lock:orders/42    a hash: who holds it, claim and owner; expires
//	locker:{d7}:queue:orders/42   a list of those who wait; expires
//	locker:{d7}:clock             the last token given in this bucket, and until
//	                              when to look for queues; stays
//	locker:{d7}:gone:<claim>      for seconds: a claim that was given up while a
//	                              request of it might still have been on its way
//
// What stays is at most 256 short strings however many names are used. The
// clocks are what tokens are made of; deleting them is safe as long as the
// server's time does not go back.
//
// # How it works
//
// Taking a free name is a script. To give it back the holder deletes its claim by HDEL, which
// compares and deletes in one; with the last field the hash goes, too. These are two
// requests. Whoever finds the name taken joins its queue and sleeps; the first to do so
// marks the holder's claim, so that HDEL no longer finds it and a script releases the name. That
// makes the first in the queue the holder at once and tells it by a message (one that
// waits in the same Locker by the answer, and then the next goroutine of that Locker joins
// the queue in the same request); one whose process no longer listens is
// passed over. A waiter looks for itself, too,
// when the time that the holder had left is over, when its subscription was
// interrupted, and every twenty seconds. Where several wait and all are served within a
// tenth of a second, a Locker joins the queue by a command instead of a script, and is not
// told how long the holder has; one that is not served soon then looks within a second.
// Should its claim be given up before the answer came, the server is told to pass over it
// for the next thirty seconds; if the network delivers the command even later the Locker
// passes the name on when it is told that it has it.
//
// A goroutine reads what the server says on the subscription. Where a name goes from hand to
// hand a waiter that is the only one of its Locker reads that itself, for ten milliseconds
// at most, which saves waking it; and a holder that was served soon sends a PING ahead when it
// releases the name: a server writes last to the client for which it had something first, so
// the next holder has its news before the one who releases has the answer, not after.
//
// A token is the server's time in microseconds, or one more than the last token if
// that is greater. So tokens go on rising when a Redis comes back empty and after a
// failover to a replica that had not seen the lock, as long as the servers' times
// differ by less than the failover takes.
//
// # What Redis cannot do
//
// Replication is asynchronous. After a failover two holders of one name may
// exist, both with a live Context: the new master may never have heard of the
// first. Their tokens differ and are in order. Waiters go on with the new master, in
// the order in which they find it. Two holders are also possible after a restart
// without the data, after an eviction (a maxmemory-policy other than noeviction is
// reported through locker.WithLogger), and after the server's clock was set.
//
// # The client
//
// The client is the caller's: it is neither configured nor closed here. Its
// MaxRetries do not apply to the requests sent here, its timeouts do. A hook is
// added to it, which only concerns requests sent here: those that the server is
// likely to answer at once are given up after 75 ms, so that they can be sent on the
// caller's goroutine and the caller still returns soon after its context has ended;
// they are then sent again with the client's own patience. It also remembers why the
// client could not connect, so that a caller is told whose context ends before the
// client gives up, and has the connections of the subscriptions hand over one message at a
// time. Hooks that were added before see every request. While one request
// follows another within 50 ms they share a connection that is not given back to the pool
// in between, unless the pool has fewer than four. One
// connection more than the pool's is open while something waits, and for some
// seconds after, in a Cluster one for each node concerned. With a server older than
// Redis 8 it is advisable to switch the client's maintenance notifications off
// (Options.MaintNotificationsConfig), which saves a failing handshake on every
// connection. A Ring is refused: it moves keys when a server is away, and with
// them the lock.
//
// A user of the server needs the keys and channels that begin with the prefix, and the
// commands EVALSHA, EVAL, TIME, GET, SET, SETRANGE, MGET, HSET, HDEL, HLEN, HEXISTS, HGETALL,
// EXISTS, PTTL, PEXPIRE, RPUSH, RPUSHX, LPOP, LPOS, LREM, and in order to wait SUBSCRIBE, PUBLISH, PUBSUB NUMSUB and
// PUBSUB NUMPAT, in a Cluster SSUBSCRIBE and SPUBLISH. A PING that is refused does no harm.
package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/underway"
)

// DefaultPrefix is what every key begins with unless WithPrefix says otherwise.
const DefaultPrefix = "locker"

// checkEvery is how soon a holder learns that its key was deleted by hand.
const checkEvery = 750 * time.Millisecond

type settings struct {
	prefix string
}

// WithPrefix sets what every key and channel begins with, DefaultPrefix without it.
// Lockers with different prefixes do not know of each other. A prefix has 1 to 100
// bytes, no braces and no spaces.
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(s *settings) error { s.prefix = prefix; return nil })
}

// New returns a Locker on the server, or the Cluster, that client is connected to.
// It does no I/O. The client must stay open until the Locker has been closed.
func New(client goredis.UniversalClient, opts ...locker.Option) (locker.Locker, error) {
	s := settings{prefix: DefaultPrefix}
	cfg, err := locker.NewConfig("redis", &s, opts...)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(client, cfg, s)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: "redis", Err: err}
	}
	return locker.New(b, cfg)
}

// backend is the driver.
type backend struct {
	client   goredis.UniversalClient
	cfg      *locker.Config
	clock    driver.Clock
	layout   *layout
	scripts  scripts
	id       string // this Locker's, 16 hexadecimal digits
	owner    any    // of claims that ask for nothing else, as an argument
	ttl      any    // the same
	times    *serverTime
	listener *listener
	dials    *switchman // of a client that is not one of a Cluster, or nil

	seen    atomic.Int64 // the highest token seen
	brisk   atomic.Bool  // the server was quick to answer last time
	nodes   sync.Map     // a *goredis.Client and the *quickClient for it
	policy  sync.Once
	working underway.Group // what runs in the background; a Close in a hurry still has it release what was held
	life    context.Context
	die     context.CancelFunc
}

func newBackend(client goredis.UniversalClient, cfg *locker.Config, s settings) (*backend, error) {
	if err := checkPrefix(s.prefix); err != nil {
		return nil, err
	}
	sharded, err := kindOf(client)
	if err != nil {
		return nil, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: the program would have ended
	b := &backend{
		client:  client,
		cfg:     cfg,
		clock:   cfg.Clock,
		id:      hex.EncodeToString(id[:]),
		scripts: newScripts(sharded),
		owner:   cfg.Owner,
		ttl:     millis(cfg.TTL),
		times:   newServerTime(cfg.Clock),
	}
	b.layout = newLayout(s.prefix, b.id, sharded)
	b.life, b.die = context.WithCancel(context.Background())
	b.listener = newListener(b)
	if c, ok := client.(*goredis.Client); ok {
		b.dials = addSwitch(c, c.AddHook)
	}
	return b, nil
}

func checkPrefix(prefix string) error {
	if prefix == "" || len(prefix) > 100 || strings.ContainsAny(prefix, "{} \t\n\v\f\r") {
		return fmt.Errorf("%w: prefix %q, want 1 to 100 bytes without braces and spaces", locker.ErrInvalidOption, prefix)
	}
	return nil
}

// kindOf reports whether client speaks to a Cluster. A client that embeds one of
// go-redis's is known by its methods.
func kindOf(client goredis.UniversalClient) (sharded bool, err error) {
	switch c := client.(type) {
	case nil:
		return false, fmt.Errorf("%w: nil client", locker.ErrInvalidOption)
	case *goredis.Client:
		if c == nil {
			return false, fmt.Errorf("%w: nil client", locker.ErrInvalidOption)
		}
		return false, nil
	case *goredis.ClusterClient:
		if c == nil {
			return false, fmt.Errorf("%w: nil client", locker.ErrInvalidOption)
		}
		return true, nil
	case cluster:
		return true, nil
	case interface{ SetAddrs(map[string]string) }:
		return false, fmt.Errorf("%w: a Ring moves locks when a server is away", locker.ErrInvalidOption)
	}
	return false, nil
}

func (b *backend) Traits() driver.Traits {
	return driver.Traits{Backend: "redis", Fair: true, Fenced: true, Prompt: true, Check: checkEvery}
}

// Close ends the subscription and what runs in the background.
func (b *backend) Close(ctx context.Context) error {
	b.die()
	b.listener.close()
	b.nodes.Range(func(_, q any) bool {
		q.(*quickClient).kept.close()
		return true
	})
	select {
	case <-b.working.None():
		return nil
	case <-ctx.Done():
		return errors.New("the client still hangs in a call: " + ctx.Err().Error())
	}
}
