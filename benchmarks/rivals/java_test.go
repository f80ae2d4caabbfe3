package rivals

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
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
	addrs := map[contender.Service]string{
		contender.Redis:     servers.SharedRedis(t).Addr(),
		contender.ZooKeeper: servers.SharedZooKeeper(t).Addr(),
	}
	for _, c := range InJava() {
		t.Run(c.Name, func(t *testing.T) {
			var all []*contender.CrowdTally
			var err error
			for try := range 3 { // a machine that stands still may spoil one
				all, err = compete(t, c, addrs[c.Setup.Service], fmt.Sprint("orders/", try))
				if err == nil && !slices.ContainsFunc(all, func(tally *contender.CrowdTally) bool {
					return measure.Sum(tally.Counts) == 0 || tally.Stuck > 0
				}) {
					break
				}
			}
			locktest.Must(t, err)
			for _, tally := range all {
				acquired := int(measure.Sum(tally.Counts))
				if len(tally.Counts) != clients || acquired == 0 || tally.Stuck != 0 || tally.Took < window {
					t.Errorf("%d acquisitions %v in %v, %d stuck", acquired, tally.Counts, tally.Took, tally.Stuck)
				}
				if len(tally.Pair) != acquired || len(tally.Acquire) < acquired || len(tally.HandOver) > acquired {
					t.Errorf("%d acquisitions with %d, %d and %d times", acquired, len(tally.Pair), len(tally.Acquire), len(tally.HandOver))
				}
			}
		})
	}
}

const (
	clients = 3
	window  = 3 * time.Second
)

// compete has a new crowd take two names in turn, one after the other. The test fails if two had one at once.
func compete(t *testing.T, c contender.Contender, addr, name string) (all []*contender.CrowdTally, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	crowd, err := c.OpenCrowd(ctx, contender.Config{Addrs: []string{addr}, TTL: time.Minute}, clients)
	if err != nil {
		return nil, err
	}
	defer crowd.Close()
	for _, name := range []string{name + "/1", name + "/2"} {
		tally, err := crowd.Compete(ctx, name, 0, window)
		if err != nil {
			return nil, err
		}
		if tally.Overlaps != 0 {
			t.Errorf("%d overlaps", tally.Overlaps)
		}
		all = append(all, tally)
	}
	return all, nil
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
