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

// turn lets two of the three runs of the suite go at a time: together they leave two
// cores so little that waits are long.
var turn = make(chan struct{}, 2)

func TestConformance(t *testing.T) {
	t.Parallel()
	turn <- struct{}{}
	defer func() { <-turn }()
	b := backendUnderTest
	if conformance.InChild() {
		b.New = func(testing.TB) *conformance.Harness { panic("not in a child") }
	} else {
		server := servers.NewRedis(t, durable)
		admin := connect(t, server.Addr())
		broken := newMisconfigured(t)
		b.New = func(t testing.TB) *conformance.Harness {
			h := harness(t, admin)
			h.Address = server.Addr()
			h.Open = func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
				return openOwned(t, options(server.Addr()), opts)
			}
			h.OpenLink = func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
				p := front(t, server.Addr())
				l, err := openOwned(t, options(p.Addr()), opts)
				return l, linkTo(p), err
			}
			h.Requests = server.Requests
			h.Stop = func(context.Context) error { return server.Kill() }
			h.Start = server.Restart
			h.Misconfigured = broken
			return h
		}
	}
	conformance.Run(t, b)
}

// TestConformanceSentinel has Sentinels tell where the master is. To break a client's
// connections both to them and to the servers there are proxies before all of them.
func TestConformanceSentinel(t *testing.T) {
	t.Parallel()
	turn <- struct{}{}
	defer func() { <-turn }()
	b := backendUnderTest
	b.Dial = func(_ context.Context, address string, opts ...locker.Option) (locker.Locker, error) {
		return New(goredis.NewFailoverClient(failoverOptions(strings.Split(address, ","), nil)), opts...)
	}
	if conformance.InChild() {
		b.New = func(testing.TB) *conformance.Harness { panic("not in a child") }
	} else {
		group := servers.NewRedisSentinel(t, durable)
		admin := closing(t, goredis.NewFailoverClient(failoverOptions(group.SentinelAddrs(), nil)))
		broken := misconfigured{"no such master": func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			o := failoverOptions(group.SentinelAddrs(), nil)
			o.MasterName = "nobody"
			return own(t, goredis.NewFailoverClient(o), opts)
		}}
		b.New = func(t testing.TB) *conformance.Harness {
			h := harness(t, admin)
			h.Address = strings.Join(group.SentinelAddrs(), ",")
			h.Open = func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
				return own(t, goredis.NewFailoverClient(failoverOptions(group.SentinelAddrs(), nil)), opts)
			}
			h.OpenLink = func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
				via := make(map[string]*proxy.Proxy)
				for _, r := range append(group.All(), group.Sentinels...) {
					via[r.Addr()] = front(t, r.Addr())
				}
				l, err := own(t, goredis.NewFailoverClient(failoverOptions(group.SentinelAddrs(), via)), opts)
				return l, linkTo(slices.Collect(maps.Values(via))...), err
			}
			h.Requests = group.Master.Requests
			// The Sentinels are away at the same time, so that nothing is failed over.
			h.Stop = func(context.Context) error {
				return each(append(group.Sentinels, group.Master), func(r *servers.Redis) error { return r.Kill() })
			}
			h.Start = func(ctx context.Context) error {
				return each(append([]*servers.Redis{group.Master}, group.Sentinels...), func(r *servers.Redis) error { return r.Restart(ctx) })
			}
			h.Misconfigured = broken
			return h
		}
	}
	conformance.Run(t, b)
}

// failoverOptions leads connections through the proxies, if there are any.
func failoverOptions(sentinels []string, via map[string]*proxy.Proxy) *goredis.FailoverOptions {
	o := &goredis.FailoverOptions{MasterName: "locker", SentinelAddrs: sentinels}
	if via != nil {
		o.Dialer = through(via)
	}
	return o
}

func through(via map[string]*proxy.Proxy) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p := via[addr]; p != nil {
			addr = p.Addr()
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}

func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	turn <- struct{}{}
	defer func() { <-turn }()
	b := backendUnderTest
	b.Dial = func(_ context.Context, address string, opts ...locker.Option) (locker.Locker, error) {
		return New(goredis.NewClusterClient(clusterOptions(strings.Split(address, ","), nil)), opts...)
	}
	if conformance.InChild() {
		b.New = func(testing.TB) *conformance.Harness { panic("not in a child") }
	} else {
		group := servers.NewRedisCluster(t, 3, durable)
		admin := clusterAdmin{closing(t, goredis.NewClusterClient(clusterOptions(group.Addrs(), nil)))}
		guarded := servers.NewRedisCluster(t, 1, servers.RedisOptions{Password: "secret"})
		broken := misconfigured{"no password": func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			return own(t, goredis.NewClusterClient(clusterOptions(guarded.Addrs(), nil)), opts)
		}}
		b.New = func(t testing.TB) *conformance.Harness {
			h := harness(t, admin)
			h.Address = strings.Join(group.Addrs(), ",")
			h.Open = func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
				return own(t, goredis.NewClusterClient(clusterOptions(group.Addrs(), nil)), opts)
			}
			h.OpenLink = func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
				via := make(map[string]*proxy.Proxy)
				for _, r := range group.Nodes {
					via[r.Addr()] = front(t, r.Addr())
				}
				l, err := own(t, goredis.NewClusterClient(clusterOptions(group.Addrs(), via)), opts)
				return l, linkTo(slices.Collect(maps.Values(via))...), err
			}
			h.Requests = func(ctx context.Context) (int64, error) { return servers.SumRequests(ctx, group.Nodes) }
			h.Stop = func(context.Context) error {
				return each(group.Nodes, func(r *servers.Redis) error { return r.Kill() })
			}
			h.Start = func(ctx context.Context) error {
				if err := each(group.Nodes, func(r *servers.Redis) error { return r.RestartNoWait(ctx) }); err != nil {
					return err
				}
				return group.WaitReady(ctx)
			}
			h.Misconfigured = broken
			return h
		}
	}
	conformance.Run(t, b)
}

func clusterOptions(addrs []string, via map[string]*proxy.Proxy) *goredis.ClusterOptions {
	o := &goredis.ClusterOptions{
		Addrs:                    addrs,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if via != nil {
		o.Dialer = through(via)
	}
	return o
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

func each(all []*servers.Redis, do func(*servers.Redis) error) error {
	for _, r := range all {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

var backendUnderTest = conformance.Backend{
	Dial: func(_ context.Context, address string, opts ...locker.Option) (locker.Locker, error) {
		return New(goredis.NewClient(options(address)), opts...) // the process ends with the test
	},
	Fair:       true,
	Fenced:     true,
	Durable:    true,
	TTL:        time.Second,
	IdleRate:   0.2,
	RequireAll: true,
}

// owned is a Locker that has a client to itself and closes it.
type owned struct {
	locker.Locker
	client  goredis.UniversalClient
	closing sync.Mutex // the first Close needs the client until it is done
}

func openOwned(t testing.TB, o *goredis.Options, opts []locker.Option) (locker.Locker, error) {
	return own(t, goredis.NewClient(o), opts)
}

func own(t testing.TB, c goredis.UniversalClient, opts []locker.Option) (locker.Locker, error) {
	t.Cleanup(func() { c.Close() })
	l, err := New(c, opts...)
	return &owned{Locker: l, client: c}, err
}

func (o *owned) Close(ctx context.Context) error {
	o.closing.Lock()
	defer o.closing.Unlock()
	defer o.client.Close()
	return o.Locker.Close(ctx)
}

// harness has the hooks that are the same for every kind of Redis.
func harness(_ testing.TB, admin goredis.UniversalClient) *conformance.Harness {
	keys := newLayout(DefaultPrefix, "", false)
	return &conformance.Harness{
		Destroy: func(ctx context.Context, name string) error {
			n, err := admin.Del(ctx, keys.of(name).lock(name)).Result()
			if err == nil && n != 1 {
				err = fmt.Errorf("nobody holds %q", name)
			}
			return err
		},
		Leftovers: func(ctx context.Context, text string) ([]string, error) {
			all, err := admin.Keys(ctx, "*").Result()
			var left []string
			for _, key := range all {
				if strings.Contains(key, text) && !ofTheDead(ctx, admin, key) {
					left = append(left, key)
				}
			}
			return left, err
		},
	}
}

// ofTheDead reports whether key is a queue in which only processes that are gone
// wait, which the server removes by itself.
func ofTheDead(ctx context.Context, admin goredis.UniversalClient, key string) bool {
	waiters, _ := admin.LRange(ctx, key, 0, -1).Result()
	for _, w := range waiters {
		channel, _, _ := strings.Cut(w, " ")
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

func front(t testing.TB, addr string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, p)
}

func linkTo(all ...*proxy.Proxy) conformance.Link {
	each := func(do func(p *proxy.Proxy)) func() {
		return func() {
			for _, p := range all {
				do(p)
			}
		}
	}
	return conformance.Link{
		Freeze: each((*proxy.Proxy).Freeze),
		Mute:   each((*proxy.Proxy).FreezeDown),
		Cut:    each(func(p *proxy.Proxy) { p.Refuse(); p.Cut() }),
		Heal:   each((*proxy.Proxy).Heal),
	}
}

// misconfigured opens clients that cannot work, by what is wrong with them.
type misconfigured map[string]func(ctx context.Context, opts ...locker.Option) (locker.Locker, error)

func newMisconfigured(t testing.TB) misconfigured {
	ctx := context.Background()
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
			return openOwned(t, o, opts)
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
