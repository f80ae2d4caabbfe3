package rivals

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// Clients in a JVM take a name in turn: each gets it, never two, and the times are those of this run.
func TestJava(t *testing.T) {
	servers.Need(t)
	if missing := JavaMissing(); missing != "" {
		t.Skip(missing)
	}
	was := warmUp
	t.Cleanup(func() { warmUp = was })
	warmUp = 2 * time.Second // enough to connect: how fast it is is not asked
	const window = 3 * time.Second
	addrs := map[contender.Service]string{
		contender.Redis:     servers.SharedRedis(t).Addr(),
		contender.ZooKeeper: servers.SharedZooKeeper(t).Addr(),
	}
	for _, c := range InJava() {
		t.Run(c.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			const n = 3
			crowd, err := c.OpenCrowd(ctx, contender.Config{Addrs: []string{addrs[c.Setup.Service]}, TTL: 15 * time.Second}, n)
			locktest.Must(t, err)
			defer crowd.Close()
			for _, name := range []string{"orders/1", "orders/2"} {
				tally, err := crowd.Compete(ctx, name, 0, window)
				locktest.Must(t, err)
				acquired := 0
				for _, count := range tally.Counts {
					acquired += int(count)
				}
				if len(tally.Counts) != n || acquired == 0 || tally.Overlaps+tally.Stuck != 0 || tally.Took < window {
					t.Errorf("%d acquisitions %v in %v, %d overlaps, %d stuck", acquired, tally.Counts, tally.Took, tally.Overlaps, tally.Stuck)
				}
				if len(tally.Pair) != acquired || len(tally.Acquire) < acquired || len(tally.HandOver) > acquired {
					t.Errorf("%d acquisitions with %d, %d and %d times", acquired, len(tally.Pair), len(tally.Acquire), len(tally.HandOver))
				}
			}
		})
	}
}

// A library that cannot reach its server says why, and no process stays.
func TestJavaWithoutServer(t *testing.T) {
	if missing := JavaMissing(); missing != "" {
		t.Skip(missing)
	}
	if testing.Short() {
		t.Skip("starts a JVM; not run with -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := InJava()[0].OpenCrowd(ctx, contender.Config{Addrs: []string{"127.0.0.1:1"}, TTL: 15 * time.Second}, 1); err == nil || ctx.Err() != nil {
		t.Errorf("error %v", err)
	}
}
