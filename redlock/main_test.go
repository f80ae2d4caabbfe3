package redlock

import (
	"context"
	"flag"
	"log"
	"os"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Tests that work more than they wait, or count requests, do not run beside others, and
// so before the suites: a machine that is busy makes locks late.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() { // the example needs servers
		_ = flag.Set("test.skip", "^Example")
	}
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set("test.parallel", "3") // the suites, which wait more than they work
	}
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
	l, err := New(connect(t, addrs...), opts...)
	if err != nil {
		t.Fatal(err)
	}
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

// requests is how many the servers have been sent.
func requests(t testing.TB, set []*servers.Redis) int64 {
	t.Helper()
	sum, err := servers.SumRequests(within(t, 30*time.Second), set)
	must(t, err)
	return sum
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
