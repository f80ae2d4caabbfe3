package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

// durable servers keep what they have acknowledged when they are killed. They write at
// once what they were told: with everysec they put it off while the disk is busy, and
// one that is killed then has lost a lock that it granted.
var durable = servers.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "no"}}

func TestConformance(t *testing.T) {
	var broken misconfigured
	if !conformance.InChild() {
		broken = newMisconfigured(t)
	}
	conform(t, single, true, func(t testing.TB) site {
		server := servers.NewRedis(t, durable)
		all := []*servers.Redis{server}
		return site{
			addrs: []string{server.Addr()}, all: all, counted: all, broken: broken,
			admin: connect(t, server.Addr()),
			stop:  func() error { return server.Kill() },
			start: server.Restart,
		}
	})
}

// TestConformanceSentinel has Sentinels tell where the master is.
func TestConformanceSentinel(t *testing.T) {
	client := func(addrs []string, via map[string]*proxy.Proxy) goredis.UniversalClient {
		return goredis.NewFailoverClient(failoverOptions(addrs, via))
	}
	conform(t, client, false, func(t testing.TB) site {
		group := servers.NewRedisSentinel(t, durable)
		addrs := group.SentinelAddrs()
		return site{
			addrs: addrs, all: append(group.All(), group.Sentinels...), counted: []*servers.Redis{group.Master},
			admin: closing(t, goredis.NewFailoverClient(failoverOptions(addrs, nil))),
			// The Sentinels are away at the same time, so that nothing is failed over.
			stop: func() error {
				return servers.Each(append(group.Sentinels, group.Master), (*servers.Redis).Kill)
			},
			start: func(ctx context.Context) error {
				return servers.Each(append([]*servers.Redis{group.Master}, group.Sentinels...), func(r *servers.Redis) error { return r.Restart(ctx) })
			},
			broken: misconfigured{"no such master": func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
				o := failoverOptions(addrs, nil)
				o.MasterName = "nobody"
				return own(t, goredis.NewFailoverClient(o), opts)
			}},
		}
	})
}

func TestConformanceCluster(t *testing.T) {
	client := func(addrs []string, via map[string]*proxy.Proxy) goredis.UniversalClient {
		return goredis.NewClusterClient(clusterOptions(addrs, via))
	}
	conform(t, client, false, func(t testing.TB) site {
		group := servers.NewRedisCluster(t, 3, durable)
		guarded := servers.NewRedisCluster(t, 1, servers.RedisOptions{Password: "secret"})
		return site{
			addrs: group.Addrs(), all: group.Nodes, counted: group.Nodes,
			admin: clusterAdmin{closing(t, goredis.NewClusterClient(clusterOptions(group.Addrs(), nil)))},
			stop:  func() error { return servers.Each(group.Nodes, (*servers.Redis).Kill) },
			start: func(ctx context.Context) error {
				if err := servers.Each(group.Nodes, func(r *servers.Redis) error { return r.RestartNoWait(ctx) }); err != nil {
					return err
				}
				return group.WaitReady(ctx)
			},
			broken: misconfigured{"no password": func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
				return own(t, goredis.NewClusterClient(clusterOptions(guarded.Addrs(), nil)), opts)
			}},
		}
	})
}

// opener makes a client that is given these addresses and led through the proxies.
type opener func(addrs []string, via map[string]*proxy.Proxy) goredis.UniversalClient

func single(addrs []string, via map[string]*proxy.Proxy) goredis.UniversalClient {
	o := options(addrs[0])
	o.Dialer = through(via)
	return goredis.NewClient(o)
}

// site is one kind of Redis and the ways to break it.
type site struct {
	addrs   []string         // what a client is given
	all     []*servers.Redis // what a client may connect to
	counted []*servers.Redis // where its requests are counted
	admin   goredis.UniversalClient
	stop    func() error
	start   func(ctx context.Context) error
	broken  misconfigured
}

// conform runs the suite with clients as client makes them: on one site, or, where one
// is started quickly, on one for each case.
func conform(t *testing.T, client opener, private bool, newSite func(t testing.TB) site) {
	t.Parallel()
	b := conformance.Backend{
		New: func(testing.TB) *conformance.Harness { panic("not in a child") },
		Dial: func(_ context.Context, address string, opts ...locker.Option) (locker.Locker, error) {
			return New(client(strings.Split(address, ","), nil), opts...) // the process ends with the test
		},
		Fair:       true,
		Fenced:     true,
		Shared:     true,
		Permits:    true,
		Downgrade:  true,
		Inspect:    true,
		Evict:      true,
		AtLeast:    true,
		Durable:    true,
		TTL:        time.Second,
		IdleRate:   0.2,
		Private:    private,
		RequireAll: true,
		Variant:    !private,
	}
	if !conformance.InChild() {
		var shared site
		if !private {
			shared = newSite(t)
		}
		b.New = func(t testing.TB) *conformance.Harness {
			s := shared
			if private {
				s = newSite(t)
			}
			return s.harness(t, client)
		}
	}
	conformance.Run(t, b)
}

func (s site) harness(t testing.TB, client opener) *conformance.Harness {
	return &conformance.Harness{
		Address: strings.Join(s.addrs, ","),
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			return own(t, client(s.addrs, nil), opts)
		},
		OpenLink: func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
			via := make(map[string]*proxy.Proxy)
			for _, r := range s.all {
				via[r.Addr()] = front(t, r.Addr())
			}
			l, err := own(t, client(s.addrs, via), opts)
			s := proxy.Set(slices.Collect(maps.Values(via)))
			return l, conformance.Link{Freeze: s.Freeze, Mute: s.FreezeDown, Cut: s.CutOff, Heal: s.Heal}, err
		},
		Requests:      func(ctx context.Context) (int64, error) { return servers.SumRequests(ctx, s.counted) },
		Stop:          func(context.Context) error { return s.stop() },
		Start:         s.start,
		Misconfigured: s.broken,
		Destroy: func(ctx context.Context, name string) error {
			n, err := s.admin.Del(ctx, lockKey(name)).Result()
			if err == nil && n != 1 {
				err = fmt.Errorf("nobody holds %q", name)
			}
			return err
		},
		Leftovers: func(ctx context.Context, text string) ([]string, error) {
			all, err := s.admin.Keys(ctx, "*").Result()
			var left []string
			for _, key := range all {
				if strings.Contains(key, text) && !ofTheDead(ctx, s.admin, key) {
					left = append(left, key)
				}
			}
			return left, err
		},
	}
}

// through leads connections through the proxies, if there are any.
func through(via map[string]*proxy.Proxy) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if via == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p := via[addr]; p != nil {
			addr = p.Addr()
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}

func failoverOptions(sentinels []string, via map[string]*proxy.Proxy) *goredis.FailoverOptions {
	return &goredis.FailoverOptions{MasterName: "locker", SentinelAddrs: sentinels, Dialer: through(via)}
}

func clusterOptions(addrs []string, via map[string]*proxy.Proxy) *goredis.ClusterOptions {
	return &goredis.ClusterOptions{
		Addrs:                    addrs,
		Dialer:                   through(via),
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// clusterAdmin asks all masters for their keys.
type clusterAdmin struct{ *goredis.ClusterClient }

func (c clusterAdmin) Keys(ctx context.Context, pattern string) *goredis.StringSliceCmd {
	var mu sync.Mutex
	var all []string
	err := c.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error {
		keys, err := node.Keys(ctx, pattern).Result()
		mu.Lock()
		defer mu.Unlock()
		all = append(all, keys...)
		return err
	})
	cmd := goredis.NewStringSliceCmd(ctx)
	cmd.SetVal(all)
	cmd.SetErr(err)
	return cmd
}

// own makes a Locker that has a client to itself and closes it.
func own(t testing.TB, c goredis.UniversalClient, opts []locker.Option) (locker.Locker, error) {
	t.Cleanup(func() { c.Close() })
	return New(c, slices.Concat(opts, []locker.Option{locker.WithOnClose(c.Close)})...)
}

// ofTheDead reports whether key is a queue in which only processes that are gone
// wait, which the server removes by itself.
func ofTheDead(ctx context.Context, admin goredis.UniversalClient, key string) bool {
	waiters, _ := admin.LRange(ctx, key, 0, -1).Result()
	for _, w := range waiters {
		channel := strings.Fields(w)[7]
		count := admin.PubSubNumSub
		if c, ok := admin.(clusterAdmin); ok {
			master, err := c.MasterForKey(ctx, key)
			if err != nil {
				return false
			}
			count = master.PubSubShardNumSub
		}
		if listening, err := count(ctx, channel).Result(); err != nil || listening[channel] > 0 {
			return false
		}
	}
	left, _ := admin.PTTL(ctx, key).Result()
	return len(waiters) > 0 && left > 0
}

// misconfigured opens clients that cannot work, by what is wrong with them.
type misconfigured map[string]func(ctx context.Context, opts ...locker.Option) (locker.Locker, error)

func newMisconfigured(t testing.TB) misconfigured {
	ctx := within(t, time.Minute)
	guarded := servers.NewRedis(t, servers.RedisOptions{Password: "secret"})
	for user, may := range map[string]string{
		"nothing":     "-@all +hello +ping",
		"noscripts":   "+@all -evalsha -eval",
		"nopublish":   "+@all -publish",
		"nosubscribe": "+@all -subscribe",
	} {
		set := append([]string{"ACL", "SETUSER", user, "on", ">pw", "~*", "&*"}, strings.Fields(may)...)
		if _, err := guarded.Do(ctx, set...); err != nil {
			t.Fatal(err)
		}
	}
	secure := servers.NewRedis(t, servers.RedisOptions{TLS: true})
	stranger := servers.NewRedis(t, servers.RedisOptions{TLS: true})

	with := func(addr string, change func(o *goredis.Options)) func(context.Context, ...locker.Option) (locker.Locker, error) {
		return func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			o := options(addr)
			change(o)
			return own(t, goredis.NewClient(o), opts)
		}
	}
	as := func(user, password string) func(o *goredis.Options) {
		return func(o *goredis.Options) { o.Username, o.Password = user, password }
	}
	trusting := func(c *tls.Config) func(o *goredis.Options) {
		return func(o *goredis.Options) { o.TLSConfig = c }
	}
	return misconfigured{
		"wrong password":         with(guarded.Addr(), as("", "wrong")),
		"no password":            with(guarded.Addr(), as("", "")),
		"no permission":          with(guarded.Addr(), as("nothing", "pw")),
		"no scripts":             with(guarded.Addr(), as("noscripts", "pw")),
		"wrong authority":        with(secure.Addr(), trusting(stranger.TLSConfig())),
		"plain text to TLS port": with(secure.Addr(), as("", "")),
		"TLS to plain port":      with(guarded.Addr(), trusting(secure.TLSConfig())),
	}
}
