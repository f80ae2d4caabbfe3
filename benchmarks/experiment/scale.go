package experiment

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

const (
	heldAtOnce = "names held at once"
	leased     = "names held at once and not renewed"
	goroutines = "goroutines of one client, each with a name of its own"
	usedOnce   = "names used once each"
)

func scale() Experiment {
	return Experiment{
		Name:     "scale",
		Title:    "Scale",
		Question: "What does one client cost that holds very many locks, and what is left of those that it once held?",
		Method: "One client takes many names and holds them for a little longer than their TTL of 3 s, 100,000 of them for one of 15 s, or without renewing them. Heap and goroutines are by how much this process grows for each lock: the heap after a garbage collection, the goroutines at the fewest that are seen in a third of the TTL. Renewals are counted at the server, after all else: to be counted slows some down. " +
			"A lock's slack is the time left until its deadline; it is looked at again and again, and is least just before a renewal. " +
			"For what is left behind, names are used once each, of all kinds that there are in turn, and the growth of what the server stores is divided by their number; " +
			"in the full form, ZooKeeper does so on a server of its own that reaps its empty containers every 5 s instead of every minute, and as fast as it can.",
		Metrics: []Metric{
			{Name: "heap", Unit: "bytes", Better: -1, Meaning: "for each lock held, in the process that holds it"},
			{Name: "goroutines", Better: -1, Meaning: "for each lock held, for as long as it is held; those that only renew it do not count"},
			{Name: "CPU", Unit: "ms/s", Better: -1, Meaning: "of the process that holds them all and does nothing else, over a third of their TTL; 10 is 1 % of a core"},
			{Name: "renewals", Unit: "/s", Better: -1, Meaning: "requests at the servers while all are held"},
			{Name: "least slack", Unit: "% of TTL", Better: 1, Meaning: "the least time that was left to any lock before it would have been lost, where the holder is told one"},
			{Name: "lost", Better: -1, Meaning: "locks that were lost although nothing failed, where the holder is told"},
			{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquire and release, pairs a second of all goroutines together"},
			{Name: "left behind", Better: -1, Meaning: "keys, nodes, leases for each name, at once"},
			{Name: "left later", Better: -1, Meaning: "the same when ZooKeeper has had the time to reap its empty containers"},
		},
		Cases: func(d Depth) []Case {
			hold := func(n int) Case {
				return Case{Name: fmt.Sprintf("%d %s", n, heldAtOnce), N: n, How: heldAtOnce, TTL: 3 * time.Second}
			}
			spread := func(n int) Case { return Case{Name: fmt.Sprintf("%d %s", n, goroutines), N: n, How: goroutines} }
			hold100k := hold(100000)
			hold100k.TTL = DefaultTTL
			lease100k := Case{Name: fmt.Sprintf("%d %s", 100000, leased), N: 100000, How: leased, TTL: DefaultTTL}
			once := func(n int) Case { return Case{Name: fmt.Sprintf("%d %s", n, usedOnce), N: n, How: usedOnce} }
			if d == Smoke {
				held := hold(100)
				held.TTL = smokeTTL
				return []Case{held, spread(20), once(200)}
			}
			if d != Full {
				return []Case{hold(1000), hold(10000), spread(100), once(200)}
			}
			return []Case{hold(1), hold(100), hold(1000), hold(10000), hold100k, lease100k, spread(1), spread(10), spread(100), spread(1000), once(10000)}
		},
		Repeat: func(Depth) int { return 1 },
		Fits:   scaleFits,
		Do: func(ctx context.Context, c *Cell) error {
			switch c.Case.How {
			case heldAtOnce, leased:
				return doHeld(ctx, c)
			case goroutines:
				return doGoroutines(ctx, c)
			}
			return doUsedOnce(ctx, c)
		},
	}
}

// smokeTTL is that of names that are held in the smoke form, where a machine that has much else to do must not lose them.
const smokeTTL = 9 * time.Second

func scaleFits(d Depth, c contender.Contender, k Case) bool {
	if !usual(d, c, k) || c.Setup.Nodes == 3 {
		return false
	}
	if k.How == heldAtOnce && !c.Traits.Renews {
		return false // it would hold nothing any more
	}
	if k.N >= 100000 {
		return c.Setup == contender.InProcess
	}
	if k.How == usedOnce && c.Setup == contender.InProcess {
		return false
	}
	if d == Full {
		return true
	}
	if k.How == heldAtOnce { // for memory the most, for the others fewer
		return (k.N >= 10000) == (c.Setup == contender.InProcess) && c.Role == contender.Ours
	}
	return c.Role == contender.Ours
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// putCPU puts what this process uses within a window in which it only waits.
func (c *Cell) putCPU(ctx context.Context, window time.Duration) error {
	start, used := time.Now(), cpuTime()
	err := contender.Pause(ctx, window)
	c.Put("CPU", millis(cpuTime()-used)/time.Since(start).Seconds())
	return err
}

func doHeld(ctx context.Context, c *Cell) error {
	client, err := c.Open(ctx)
	if err != nil {
		return err
	}
	window := c.TTL() + 500*time.Millisecond
	if c.Case.How == leased {
		client = client.As(contender.Kind{Lease: time.Hour})
		window = time.Second
	}
	base, n := c.LockName(), c.Case.N
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s/%d", base, i)
	}
	all := make([]contender.Held, n)
	// One lock is there beforehand: what a client sets up with its first does not count.
	first, err := client.Acquire(ctx, base)
	if err != nil {
		return err
	}
	heapBefore, goroutinesBefore := heap(), runtime.NumGoroutine()
	err = spread(n, 32, func(i int) (err error) {
		all[i], err = client.Acquire(ctx, names[i])
		return err
	})
	if err != nil {
		return err
	}
	c.Put("heap", max(0, heap()-heapBefore)/float64(n))
	stay := leastGoroutines(ctx, c.TTL()/3, goroutinesBefore) - goroutinesBefore
	c.Put("goroutines", float64(max(0, stay))/float64(n))
	if err := c.putCPU(ctx, c.Depth.window(c.TTL()/3)); err != nil {
		return err
	}
	if _, dated := first.(contender.Dated); dated && c.Case.How != leased {
		c.Put("least slack", 100*leastSlack(ctx, all, window)/c.TTL().Seconds())
	}
	if _, ok := first.(contender.Watched); ok {
		var lost int64
		for _, h := range all {
			if h.(contender.Watched).Context().Err() != nil {
				lost++
			}
		}
		c.PutCount("lost", lost)
	}
	requests, err := c.Site.Requests(ctx, func() error { return contender.Pause(ctx, window) })
	if err != nil {
		return err
	}
	c.Put("renewals", float64(requests)/window.Seconds())
	_ = first.Release(ctx)
	_ = spread(n, 32, func(i int) error {
		_ = all[i].Release(ctx) // what was lost is counted above
		return nil
	})
	return ctx.Err()
}

// leastGoroutines looks again and again for a while and returns the least number of goroutines that there were, or the first
// that is no more than before. Those that renew come and go, many of them at the same time; what is asked is how many stay for
// as long as locks are held.
func leastGoroutines(ctx context.Context, window time.Duration, before int) int {
	least := runtime.NumGoroutine()
	for start := time.Now(); least > before && time.Since(start) < window && contender.Pause(ctx, 10*time.Millisecond) == nil; {
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

// leastSlack looks at the deadlines of the locks for a while and returns the least time,
// in seconds, that was left to one.
func leastSlack(ctx context.Context, all []contender.Held, window time.Duration) float64 {
	least := math.Inf(1)
	for start := time.Now(); time.Since(start) < window; {
		for _, h := range all {
			least = min(least, time.Until(h.(contender.Dated).Deadline()).Seconds())
		}
		if contender.Pause(ctx, 20*time.Millisecond) != nil {
			break
		}
	}
	return least
}

func doGoroutines(ctx context.Context, c *Cell) error {
	client, err := c.Open(ctx)
	if err != nil {
		return err
	}
	base := c.LockName()
	var pairs atomic.Int64
	start, window := time.Now(), c.Depth.window(500*time.Millisecond)
	err = spread(c.Case.N, c.Case.N, func(i int) error {
		name := fmt.Sprintf("%s/%d", base, i)
		for time.Since(start) < window {
			if err := use(ctx, client, name); err != nil {
				return err
			}
			pairs.Add(1)
		}
		return nil
	})
	c.Put("rate", float64(pairs.Load())/time.Since(start).Seconds())
	return err
}

// reaping are the properties of a ZooKeeper that does not take minutes to reap what ten
// thousand names leave.
var reaping = map[string]string{"znode.container.checkIntervalMs": "5000", "znode.container.maxPerMinute": "1000000"}

func doUsedOnce(ctx context.Context, c *Cell) error {
	reaps := c.Depth == Full && c.Contender.Setup.Service == contender.ZooKeeper
	if reaps {
		if err := c.On(site.StartZooKeeperWith(ctx, c.Contender.Setup, reaping)); err != nil {
			return err
		}
	}
	client, err := c.Open(ctx)
	if err != nil {
		return err
	}
	base, n := c.LockName(), c.Case.N
	takers := []contender.Client{client}
	if c.Contender.Traits.Shared {
		takers = append(takers, client.As(contender.Kind{Shared: true}))
	}
	if c.Contender.Traits.Permits {
		takers = append(takers, client.As(contender.Kind{Permits: 1, Of: 2}))
	}
	take := func(i int) error {
		return use(ctx, takers[(i+1)%len(takers)], fmt.Sprintf("%s/%d", base, i))
	}
	if err := take(-1); err != nil {
		return err
	}
	before, err := c.Site.Stored(ctx)
	if err != nil {
		return err
	}
	if err := spread(n, 32, take); err != nil {
		return err
	}
	after, err := c.Site.Stored(ctx)
	if err == nil && !reaps {
		c.Put("left behind", float64(after-before)/float64(n))
		return nil
	}
	for start := time.Now(); err == nil && after > before && time.Since(start) < 15*time.Second; {
		if err = contender.Pause(ctx, time.Second); err == nil {
			after, err = c.Site.Stored(ctx)
		}
	}
	if err == nil {
		c.Put("left later", float64(max(0, after-before))/float64(n))
	}
	return err
}
