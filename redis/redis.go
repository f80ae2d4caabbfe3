// Package redis is the locker backend for one logical Redis: a single server, a master that Sentinels
// look after, or a Cluster.
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
// The names are divided among 256 buckets by the first byte of their FNV-1a checksum. Its two
// hexadecimal digits are the hash tag of all keys of a bucket, so that in a Cluster they are in one
// slot. For the name "orders/42", which is in bucket d7:
//
//	locker:{d7}:lock:orders/42    who holds it: a string for an exclusive holder, a hash for others
//	locker:{d7}:queue:orders/42   a list of those who wait
//	locker:{d7}:clock             the last token given in this bucket
//	locker:{d7}:gone:<id>         for seconds: a claim that was given up while a request of it might
//	                              still have been on its way
//
// All but the clocks expire. What is in them is described in internal/redisnode/lua/lib.lua; the scripts
// beside it are all that is needed to take part in another language. Deleting clocks is safe as long as
// the server's time does not go back. Keys that begin with another prefix are never read or written.
//
// # How it works
//
// To take a free name is one script, to release it another: two requests. Whoever finds the name taken
// joins its queue in the same request and sleeps; the script that releases the name makes as many from
// the head of the queue holders as have room, and tells each by a message. One whose process no
// longer listens is passed over. A waiter looks by itself, too, when the time of the first holder should
// be over, when its subscription was interrupted, and every twenty seconds.
//
// Every request that takes something says until when, by the server's time, it may have an effect. So one
// that the network has kept for long does nothing, and what was given up leaves a tombstone until then.
//
// A token is the server's time in microseconds, or one more than the last token if that is greater. So
// tokens go on rising when a Redis comes back empty and after a failover to a replica that had not seen
// the lock, as long as the servers' times differ by less than the failover takes.
//
// # What Redis cannot do
//
// Replication is asynchronous. After a failover two holders of one name may exist, both with a live
// Context: the new master may never have heard of the first. Their tokens differ and are in order. Two
// holders are also possible after a restart without the data, after an eviction (a maxmemory-policy
// other than noeviction is reported through locker.WithLogger), and after the server's clock was set.
// Permits whose n differs from one claim to the next are granted in the order of the queue: who comes
// later waits for who came earlier, also if there would be room.
//
// # The client
//
// The client is the caller's: it is neither configured nor closed here. Its MaxRetries do not apply to
// the requests sent here, its timeouts do. While the server answers quickly and the client has no hooks,
// requests are sent on the caller's goroutine by connections of the client's pool, and given up after
// 75 ms, to be sent again with the client's own patience; otherwise they are sent on a goroutine of their
// own, which takes about a third more time on a server nearby. One hook is added to the client, which
// finds out whether there are others and why the client could not connect. While one request follows
// another within 50 ms they share a connection that is not given back to the pool in between. One
// connection more than the pool's is open once something has waited, in a Cluster one for each server
// concerned. With a server older than Redis 8 it is advisable to switch the client's maintenance
// notifications off (Options.MaintNotificationsConfig). A Ring is refused: it moves keys when a server is
// away, and with them the lock.
//
// A user of the server needs the keys and channels that begin with the prefix and a colon, and the
// commands EVALSHA, EVAL, TIME, EXISTS, GET, SET, DEL, HGET, HSET, HDEL, HLEN, HGETALL, HINCRBY, PTTL,
// PEXPIRE, LINDEX, LLEN, LPOP, LPOS, LRANGE, LREM, RPUSH; in order to wait SUBSCRIBE, PUBLISH and
// PUBSUB NUMSUB, in a Cluster SSUBSCRIBE, SPUBLISH and PUBSUB SHARDNUMSUB; for locker.Names SCAN.
package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// DefaultPrefix is what every key begins with unless WithPrefix says otherwise.
const DefaultPrefix = "locker"

// checkEvery is how soon a holder learns that its key was deleted by hand.
const checkEvery = 750 * time.Millisecond

type settings struct{ prefix string }

// WithPrefix sets what every key and channel begins with, DefaultPrefix without it. Lockers with
// different prefixes do not know of each other. A prefix has 1 to 100 bytes, no braces and no
// spaces.
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(s *settings) error { s.prefix = prefix; return nil })
}

// New returns a Locker on the server, or the Cluster, that client is connected to. It does no I/O.
// The client must stay open until the Locker has been closed.
func New(client goredis.UniversalClient, opts ...locker.Option) (locker.Locker, error) {
	s := settings{prefix: DefaultPrefix}
	cfg, err := locker.NewConfig("redis", &s, opts...)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(client, cfg, s)
	if err != nil {
		return nil, locker.InvalidOption("redis", err)
	}
	return locker.New(b, cfg)
}

// backend is the driver.
type backend struct {
	node  *redisnode.Node
	clock driver.Clock
}

func newBackend(client goredis.UniversalClient, cfg *locker.Config, s settings) (*backend, error) {
	node, err := redisnode.Open(client, redisnode.Options{Prefix: s.prefix, Clock: cfg.Clock, Logger: cfg.Logger})
	return &backend{node, cfg.Clock}, err
}

// Traits implements [driver.Driver].
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "redis", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true, Prompt: true, Check: checkEvery,
	}
}

// Close ends the subscription and what runs in the background.
func (b *backend) Close(ctx context.Context) error { return b.node.Close(ctx) }
