package redlock

import (
	"context"
	"log"
	"os"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	logging.Disable()
	code := m.Run()
	if err := servers.StopAll(); err != nil {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}

// options are those of a client as most users have it, but for what servers
// before version 8 do not know.
func options(addr string) *goredis.Options {
	return &goredis.Options{
		Addr:                     addr,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// connect makes a client for each address, closed when the test ends.
func connect(t testing.TB, addrs ...string) (clients []goredis.UniversalClient) {
	t.Helper()
	for _, addr := range addrs {
		c := goredis.NewClient(options(addr))
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// open makes a Locker of its own clients, closed when the test ends.
func open(t testing.TB, addrs []string, opts ...locker.Option) locker.Locker {
	t.Helper()
	cfg, err := locker.NewConfig(opts...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBackend(connect(t, addrs...), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := locker.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	drivers.Store(l, b)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Logf("close: %v", err)
		}
	})
	return l
}

func addrs(set []*servers.Redis) (list []string) {
	for _, r := range set {
		list = append(list, r.Addr())
	}
	return list
}

// five are servers that no test breaks.
func five(t testing.TB) []string {
	t.Helper()
	return addrs(servers.SharedRedisSet(t))
}

// proxies puts a proxy in front of each address.
func proxies(t testing.TB, addrs []string) (list []*proxy.Proxy, fronts []string) {
	t.Helper()
	for _, addr := range addrs {
		p, err := proxy.New(addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		list = append(list, p)
		fronts = append(fronts, p.Addr())
	}
	return list, fronts
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

var drivers sync.Map // of the Lockers made by open

// driverOf is the driver behind a Locker made by open.
func driverOf(t testing.TB, l locker.Locker) *backend {
	t.Helper()
	b, ok := drivers.Load(l)
	if !ok {
		t.Fatal("not made by open")
	}
	return b.(*backend)
}
