package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/redis"
)

func init() {
	register := func(kind string, connect func(a Access) goredis.UniversalClient) {
		Register(kind, func(_ context.Context, a Access) (conformance.Client, error) {
			a, end := a.alive()
			c := connect(a)
			l, err := redis.New(c, a.Options()...)
			return ClientOf(l, err, func() error { end(); return c.Close() })
		})
	}
	register("redis", func(a Access) goredis.UniversalClient { return RedisClient(a, a.Addrs[0]) })
	register("redis-sentinel", func(a Access) goredis.UniversalClient {
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: a.Master, SentinelAddrs: a.Addrs, Dialer: a.dial, Username: a.User, Password: a.Password, DialerRetries: a.dials,
		})
	})
	register("redis-cluster", func(a Access) goredis.UniversalClient {
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: a.Addrs, Dialer: a.dial, Username: a.User, Password: a.Password, MaintNotificationsConfig: noNotifications(),
		})
	})
}

// alive returns a for a client that dials until end is called: go-redis goes on dialling for one that has been closed, for half a
// minute if nobody answers.
func (a Access) alive() (_ Access, end context.CancelFunc) {
	a.life, end = context.WithCancel(context.Background())
	return a, end
}

// RedisClient makes a go-redis client with its defaults, but for the maintenance
// notifications, that reaches the server at addr as a says.
func RedisClient(a Access, addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, Dialer: a.dial, Username: a.User, Password: a.Password,
		MaintNotificationsConfig: noNotifications(),
	})
}

func noNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func (a Access) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if a.life != nil {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(a.life, cancel)()
		ctx = within
	}
	d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 5 * time.Minute}
	conn, err := d.DialContext(ctx, network, a.Through(addr))
	if err != nil || a.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, a.tls(addr)) // go-redis leaves TLS to who dials
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// keepsData are the arguments of a Redis that knows after kill -9 what it knew before.
// What it has written is the system's then; to wait for the disk would help only against
// a machine that fails.
var keepsData = []string{"--appendonly", "yes", "--appendfsync", "no"}

// redisSetups start every kind of Redis that locks are put to the test on, with options.
var redisSetups = map[string]func(t testing.TB, o servers.RedisOptions) *Servers{
	"redis-1": func(t testing.TB, o servers.RedisOptions) *Servers {
		return redisServers("redis", []*servers.Redis{servers.NewRedis(t, o)})
	},
	"redis-replica": func(t testing.TB, o servers.RedisOptions) *Servers {
		g := servers.NewReplicatedRedis(t, 1, o)
		s := redisServers("redis", g.All())
		s.Replicated = g
		s.Access.Addrs = s.Addrs[:1]
		s.Failover = s.failOver
		return s
	},
	"redis-sentinel": func(t testing.TB, o servers.RedisOptions) *Servers {
		g := servers.NewRedisSentinel(t, o)
		s := redisServers("redis-sentinel", g.All())
		s.Sentinel, s.Replicated = g, g.ReplicatedRedis
		s.Access.Addrs, s.Access.Master = g.SentinelAddrs(), g.MasterName
		s.Failover = s.sentinelFailOver
		return s
	},
	"redis-cluster": func(t testing.TB, o servers.RedisOptions) *Servers {
		c := servers.NewRedisCluster(t, 3, o)
		s := redisServers("redis-cluster", c.Nodes)
		s.Cluster = c
		return s
	},
	"redlock-5": func(t testing.TB, o servers.RedisOptions) *Servers {
		s := redisServers("redlock", servers.NewRedisSet(t, 5, o))
		s.Expire = s.ExpireMajority("*lock:")
		return s
	},
}

// onRedis is a kind of Redis whose servers keep their data.
func onRedis(name, family string) Backend {
	b := setup(name, family, func(t testing.TB) *Servers {
		s := redisSetups[name](t, servers.RedisOptions{Args: keepsData})
		s.Keeps = true
		return s
	})
	b.Offers.Permits = family != redlockFamily
	return b
}

// withOptions has a row run on servers that are started with options of its own.
func withOptions(o servers.RedisOptions) func(b Backend) Backend {
	return func(b Backend) Backend {
		start := redisSetups[b.Name]
		b.Start = func(t testing.TB) *Servers { return start(t, o) }
		return b
	}
}

// The kinds of Redis: one server, a master with a replica and nobody to fail over but the
// row itself, a master with a replica that Sentinels fail over, a Cluster of three
// masters.
var (
	Redis1        = onRedis("redis-1", redisFamily)
	RedisReplica  = onRedis("redis-replica", redisFamily)
	RedisSentinel = onRedis("redis-sentinel", redisFamily)
	RedisCluster  = onRedis("redis-cluster", redisFamily)
)

// RedisEmpty is one Redis server that is empty after a restart.
var RedisEmpty = setup("redis-empty", redisFamily, func(t testing.TB) *Servers {
	return redisSetups["redis-1"](t, servers.RedisOptions{})
})
