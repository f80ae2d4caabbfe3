package redis

import (
	"context"
	"fmt"
	"github.com/seed80cd6120/locker/driver"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// turns takes and releases a name so often and fails if the requests of one did not
// follow soon on those of the other.
func turns(t *testing.T, l locker.Locker, name string, n int) (steady bool) {
	t.Helper()
	steady = true
	for range n {
		began := time.Now()
		release(t, acquire(t, l, name))
		steady = steady && time.Since(began) < keptFor/2
	}
	return steady
}

// taken is how often a connection was taken out of the pool of client.
func taken(client *goredis.Client) uint32 {
	s := client.PoolStats()
	return s.Hits + s.Misses
}

func allBack(client *goredis.Client) func() bool {
	return func() bool {
		s := client.PoolStats()
		return s.TotalConns > 0 && s.IdleConns == s.TotalConns
	}
}

// A Locker in steady use has a connection at hand, and none when it is not used or has
// been closed. It leaves the connections of a small pool alone.
func TestKeptConnection(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	const n = 50
	for _, row := range []struct {
		pool int
		kept bool
	}{{roomy, true}, {roomy - 1, false}} {
		o := options(r.Addr())
		o.PoolSize = row.pool
		client := closing(t, goredis.NewClient(o))
		l := open(t, client)
		name := freshName(t)
		turns(t, l, name, 2)
		before, steady := taken(client), false
		for try := 0; try < 20 && !steady; try++ {
			before = taken(client)
			steady = turns(t, l, name, n)
		}
		if !steady {
			t.Fatalf("this machine never did %d turns without a pause", n)
		}
		// Each turn is two requests; renewals and the like may come in between.
		if took := taken(client) - before; row.kept && took > n/2 || !row.kept && took < 2*n {
			t.Errorf("pool of %d: %d connections taken for %d turns", row.pool, took, n)
		}
		eventually.Is(t, "the connection back in the pool", allBack(client))

		turns(t, l, name, n)
		if err := l.Close(within(t, slack)); err != nil {
			t.Fatal(err)
		}
		if !allBack(client)() {
			t.Errorf("after Close: %+v", client.PoolStats())
		}
	}
}

// A connection that was cut while it was kept costs a release no more than another try,
// and an acquisition nothing.
func TestKeptConnectionCut(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	o := options(r.Addr())
	client := closing(t, goredis.NewClient(o))
	l := open(t, client)
	name := freshName(t)
	cut := func() {
		if err := admin.ClientKillByFilter(context.Background(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		turns(t, l, name, 3)
		cut()
		lock := acquire(t, l, name)
		cut()
		release(t, lock)
		if held := admin.Exists(context.Background(), lockKey(name)).Val(); held != 0 {
			t.Fatal("still held after the release")
		}
	}
}

// A PING goes along with the release of a name that goes from hand to hand, to another
// Locker: then the next has its news before the one who releases its answer. It does not
// otherwise, and nothing depends on it.
func TestPing(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	a, b := opened(t, connect(t, r.Addr())), opened(t, connectAs(t, admin, r.Addr(), "deaf", "-ping"))
	name := freshName(t)
	var holder *backend
	var held *driver.Claim
	// pass gives the name to the other after a while and returns how many were sent.
	pass := func(to *backend, hold time.Duration) int {
		next := claim(name, time.Minute, true)
		done := waits(within(t, 20*time.Second), to, next)
		queued(t, admin, name, 1)
		for end := time.Now().Add(hold); time.Now().Before(end); time.Sleep(keptFor / 10) {
			for _, b := range []*backend{a, b} { // which keep their connections by that
				c := claim(name+"/another", time.Minute, false)
				gets(t, waits(within(t, slack), b, c))
				gives(t, b, c)
			}
		}
		before := calls(t, admin, "ping")
		gives(t, holder, held)
		gets(t, done)
		holder, held = to, next
		return calls(t, admin, "ping") - before
	}
	other := func() *backend {
		if holder == a {
			return b
		}
		return a
	}
	holder, held = a, claim(name, time.Minute, false)
	gets(t, waits(within(t, slack), a, held))
	if n := pass(b, 0); n != 0 {
		t.Errorf("%d by one that did not wait", n)
	}
	seen, refused := 0, func() int { return refusals(t, admin, "ping") }
	eventually.Is(t, "a PING by each", func() bool {
		seen += pass(other(), 0)
		return seen > 0 && refused() > 0
	})
	pass(other(), moment)
	if n := pass(other(), moment); n != 0 {
		t.Errorf("%d by one that has waited for long", n)
	}
	pass(other(), 0)
	if n := pass(holder, 0); n != 0 {
		t.Errorf("%d for one that waits in the same Locker", n)
	}
	gives(t, holder, held)
	for range 10 {
		c := claim(name, time.Minute, true)
		before := calls(t, admin, "ping")
		gets(t, waits(within(t, slack), a, c))
		gives(t, a, c)
		if n := calls(t, admin, "ping") - before; n != 0 {
			t.Errorf("%d by one that is alone", n)
		}
	}
}

// refusals is how often the server has refused a command.
func refusals(t testing.TB, admin *goredis.Client, command string) (n int) {
	t.Helper()
	info, err := admin.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(field(info, "cmdstat_"+command), ",") {
		_, _ = fmt.Sscanf(part, "rejected_calls=%d", &n)
	}
	return n
}
