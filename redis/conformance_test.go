package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

// durable makes a server keep what it has acknowledged when it is killed.
var durable = servers.RedisOptions{Args: []string{"--appendonly", "yes"}}

func TestConformance(t *testing.T) {
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
	c := goredis.NewClient(o)
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
		locker, _, _ := strings.Cut(w, " ")
		listening, err := admin.PubSubNumSub(ctx, DefaultPrefix+":wake:"+locker).Result()
		if err != nil || listening[DefaultPrefix+":wake:"+locker] > 0 {
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
