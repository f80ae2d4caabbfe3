// Package redis is the locker backend for one logical Redis: a single server, a master that Sentinels
// look after, or a Cluster.
//
//	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
//	l, err := redis.New(client)
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// Redis 6.2 or later is needed, for a ClusterClient of go-redis, which NewFailoverClusterClient returns as well, 7.0 or
// later (sharded pub/sub).
//
// # How it works
//
// To take a free name is one script, to release it another: two requests. Whoever finds the name taken joins
// its queue in the same request and sleeps; the script that releases the name makes holders of as many from the
// head of the queue as fit, and tells each by a message. A token is the server's time in microseconds, or
// one more than the last. docs/design/redis.md describes all keys, records and scripts: enough to take part in
// another language. All keys but the clocks (locker:{00}:clock to locker:{ff}:clock) expire; deleting clocks is safe
// as long as the server's time does not go back. Keys that begin with another prefix are never read or written.
//
// # What Redis cannot do
//
// Two holders of one name may exist, both with a live Context, after a failover (replication is asynchronous),
// a restart without the data, an eviction (a maxmemory-policy other than noeviction is reported through
// locker.WithLogger), and after the server's clock was set. Their tokens differ and are in order.
//
// # The client
//
// The client is the caller's: it is neither configured nor closed here. Its MaxRetries do not apply to the
// scripts sent here, its timeouts do. While the server answers quickly and the client has no hooks, no OnConnect
// and no provider of credentials, requests are sent on the caller's goroutine and given up after 75 ms, to be sent
// again with the client's own patience; otherwise on a goroutine of their own, which takes about a third more time
// on a server nearby.
// One connection more than the pool's is open once something has waited, in a Cluster one for each server
// concerned. A Ring is refused: it moves keys when a server is away, and with them the lock.
//
// A user of the server needs the keys and channels that begin with the prefix and a colon, and the commands
// EVALSHA, EVAL, TIME, EXISTS, GET, SET, DEL, HGET, HSET, HDEL, HGETALL, HINCRBY, PTTL, PEXPIRE, LINDEX, LLEN,
// LPOP, LPOS, LRANGE, LREM, RPUSH; in order to wait SUBSCRIBE, PUBLISH, PUBSUB NUMSUB and PING, with a ClusterClient
// SSUBSCRIBE, SPUBLISH, PUBSUB SHARDNUMSUB and PING, and all of these where clients of both kinds use one prefix; for
// locker.Names SCAN; for the warning about evictions INFO.
package redis

import (
	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// DefaultPrefix is what every key begins with unless WithPrefix says otherwise.
const DefaultPrefix = "locker"

// WithPrefix sets what every key and channel begins with, DefaultPrefix without it. Lockers with
// different prefixes do not know of each other. A prefix has 1 to 100 bytes, no braces and no
// spaces.
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(o *redisnode.Options) error { o.Prefix = prefix; return nil })
}

// New returns a Locker on the server, or the Cluster, that client is connected to. It does no I/O.
// The client must stay open until the Locker has been closed.
func New(client goredis.UniversalClient, opts ...locker.Option) (locker.Locker, error) {
	b, cfg, err := newBackend(client, opts...)
	if err != nil {
		return nil, err
	}
	return locker.New(b, cfg)
}
