package redlock

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Tests that work more than they wait, or count requests, do not run beside others, and
// so before the suites: a machine that is busy makes locks late.
func TestMain(m *testing.M) {
	logging.Disable()
	servers.Main(m)
}

var (
	within      = locktest.Within
	proxies     = locktest.Fronts
	must        = locktest.Must
	release     = locktest.Release
	driverClaim = locktest.Claim
	take        = locktest.Take
	begin       = locktest.BeginClaim
	renewed     = locktest.Renewed
)

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
	must(t, err)
	locktest.CloseAfter(t, l.Close)
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

// requests is how many the servers have been sent.
func requests(t testing.TB, set []*servers.Redis) int64 {
	t.Helper()
	sum, err := servers.SumRequests(within(t, 30*time.Second), set)
	must(t, err)
	return sum
}

// newDriver makes the driver without the core.
func newDriver(t testing.TB, nodes []string, opts ...locker.Option) *backend {
	t.Helper()
	clients := connect(t, nodes...)
	for i, c := range clients {
		clients[i] = c.(*goredis.Client).WithTimeout(20 * time.Second) // no late answer has a request sent again
	}
	return newDriverOver(t, clients, opts...)
}

func newDriverOver(t testing.TB, clients []goredis.UniversalClient, opts ...locker.Option) *backend {
	t.Helper()
	s := settings{prefix: DefaultPrefix}
	cfg, err := locker.NewConfig("redlock", &s, opts...)
	must(t, err)
	if s.bound == 0 {
		s.bound = 20 * time.Second // nodes that answer are all heard, on a late machine too
	}
	b, err := newBackend(clients, cfg, s)
	must(t, err)
	locktest.CloseAfter(t, b.Close)
	return b
}

// keys waits, for d, until there are n locks and queues on the nodes, all counted, whose names begin with that of the test.
func keys(t testing.TB, nodes []string, n int, d time.Duration) {
	t.Helper()
	clients := connect(t, nodes...)
	own := regexp.MustCompile(":" + regexp.QuoteMeta(t.Name()) + `(\PL|$)`) // not of a test whose longer name begins with this one
	eventually.Within(t, d, fmt.Sprint(n, " locks and queues are there"), func() bool {
		found := 0
		for _, c := range clients {
			keys, err := leftovers(within(t, 10*time.Second), c, t.Name())
			must(t, err)
			for _, k := range keys {
				if own.MatchString(k) {
					found++
				}
			}
		}
		return found == n
	})
}

// nothingLeft waits until the test's name is gone from the nodes, which is before its TTL would do that.
func nothingLeft(t testing.TB, nodes []string) { t.Helper(); keys(t, nodes, 0, 10*time.Second) }

// onAllFive waits until the test's name is held, and not waited for, on all five nodes.
func onAllFive(t testing.TB, nodes []string) { t.Helper(); keys(t, nodes, 5, time.Minute) }

// eitherWay runs a test with tokens and without: the questions then are different.
func eitherWay(t *testing.T, run func(*testing.T, ...locker.Option)) {
	t.Run("fenced", func(t *testing.T) { run(t) })
	t.Run("unfenced", func(t *testing.T) { run(t, WithoutFencing()) })
}

// waits waits until n claims stand each in the queues of a majority of the nodes.
func waits(t testing.TB, nodes []goredis.UniversalClient, name string, n int) {
	t.Helper()
	eventually.Within(t, 2*time.Minute, "all wait", func() bool {
		places := make(map[string]int)
		for _, c := range nodes {
			for _, entry := range c.LRange(within(t, 5*time.Second), queueKey(name), 0, -1).Val() {
				places[strings.Fields(entry)[1]]++
			}
		}
		queued := 0
		for _, k := range places {
			if k > len(nodes)/2 {
				queued++
			}
		}
		return queued >= n
	})
}

// isAcquire and isRelease tell requests by the number of their words; see redisnode.
func isAcquire(request []byte) bool {
	return bytes.HasPrefix(request, []byte("*12\r\n"))
}

func isRelease(request []byte) bool {
	return bytes.HasPrefix(request, []byte("*11\r\n"))
}

func sharedClaim(name string, ttl time.Duration, wait bool) *driver.Claim {
	c := driverClaim(name, ttl, wait)
	c.Weight = 1
	return c
}
