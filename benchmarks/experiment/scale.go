package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
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
		Method: "One client takes many names and holds them for a little longer than their TTL of 3 s, 100,000 of them for one of 15 s, or without renewing them. Heap and goroutines are the growth of this process for each lock, after a collection; renewals are counted at the server. " +
			"A lock's slack is the time left until its deadline, looked at all the time; it is least just before a renewal. " +
			"For what is left behind, names are used once each, of all kinds that there are in turn, and the growth of what the server stores is divided by their number; " +
			"in the full form, ZooKeeper does so on a server of its own that reaps its empty containers every 5 s instead of every minute, and as fast as it can.",
		Metrics: []Metric{
			{Name: "heap", Unit: "bytes", Better: -1, Plot: true, Meaning: "for each lock held, in the process that holds it"},
			{Name: "goroutines", Better: -1, Meaning: "for each lock held"},
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
			if d != Full {
				return []Case{hold(1000), hold(10000), spread(100), once(200)}
			}
			return []Case{hold(1), hold(100), hold(1000), hold(10000), hold100k, lease100k, spread(1), spread(10), spread(100), spread(1000), once(10000)}
		},
		Repeat: func(Depth) int { return 1 },
		Fits:   scaleFits,
		Do: func(ctx context.Context, c *Cell) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
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

func scaleFits(d Depth, c contender.Contender, k Case) bool {
	if !usual(d, c, k) || c.Setup.Nodes == 3 {
		return false
	}
	if k.How == heldAtOnce && !c.Traits.Renews {
		return false // it would hold nothing any more
	}
	if k.N >= 100000 {
		return c.Setup.Service == contender.Memory
	}
	if k.How == usedOnce && c.Setup.Service == contender.Memory {
		return false
	}
	if d == Full {
		return true
	}
	if k.How == heldAtOnce { // for memory the most, for the others fewer
		return (k.N >= 10000) == (c.Setup.Service == contender.Memory) && c.Role == contender.Ours
	}
	return c.Role == contender.Ours
}

// spread calls do for 0 to n-1 with so many at once.
func spread(n, atOnce int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, min(n, atOnce))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[w] = do(i); errs[w] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func doHeld(ctx context.Context, c *Cell) error {
	client, err := c.Open(ctx)
	if err != nil {
		return err
	}
	if c.Case.How == leased {
		client = contender.As(client, contender.Kind{Lease: time.Hour})
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
	c.Put("heap", math.Max(0, heap()-heapBefore)/float64(n))
	c.Put("goroutines", math.Max(0, float64(runtime.NumGoroutine()-goroutinesBefore))/float64(n))

	start, used := time.Now(), cpuTime()
	if err := pause(ctx, c.TTL()/3); err != nil {
		return err
	}
	c.Put("CPU", millis(cpuTime()-used)/time.Since(start).Seconds())
	window := c.TTL() + 500*time.Millisecond
	if c.Case.How == leased {
		window = time.Second
	}
	requests, err := c.Site.Requests(ctx, func() error {
		if c.Case.How == leased {
			return pause(ctx, window)
		}
		c.Put("least slack", 100*leastSlack(ctx, all, window)/c.TTL().Seconds())
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	c.Put("renewals", float64(requests)/window.Seconds())
	if _, ok := first.(contender.Watched); ok {
		lost := 0
		for _, h := range all {
			if h.(contender.Watched).Context().Err() != nil {
				lost++
			}
		}
		c.Put("lost", float64(lost))
	}
	_ = first.Release(ctx)
	_ = spread(n, 32, func(i int) error {
		_ = all[i].Release(ctx) // what was lost is counted above
		return nil
	})
	return ctx.Err()
}

// leastSlack looks at the deadlines of the locks for a while and returns the least time,
// in seconds, that was left to one; NaN if they have none.
func leastSlack(ctx context.Context, all []contender.Held, window time.Duration) float64 {
	least := math.NaN()
	for start := time.Now(); time.Since(start) < window; {
		for _, h := range all {
			d, ok := h.(contender.Dated)
			if !ok {
				_ = pause(ctx, time.Until(start.Add(window)))
				return math.NaN()
			}
			if left := time.Until(d.Deadline()).Seconds(); math.IsNaN(least) || left < least {
				least = left
			}
		}
		if pause(ctx, 20*time.Millisecond) != nil {
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
	var over atomic.Bool
	window := c.Depth.window(500 * time.Millisecond)
	timer := time.AfterFunc(window, func() { over.Store(true) })
	defer timer.Stop()
	start := time.Now()
	err = spread(c.Case.N, c.Case.N, func(i int) error {
		name := fmt.Sprintf("%s/%d", base, i)
		for !over.Load() {
			held, err := client.Acquire(ctx, name)
			if err != nil {
				return err
			}
			if err := held.Release(ctx); err != nil {
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
		s, err := site.StartZooKeeperWith(ctx, c.Contender.Setup, reaping)
		if err != nil {
			return err
		}
		defer s.Close()
		defer c.close() // before the server
		c.Site = s
	}
	client, err := c.Open(ctx)
	if err != nil {
		return err
	}
	base, n := c.LockName(), c.Case.N
	takers := []contender.Client{client}
	if c.Contender.Traits.Shared {
		takers = append(takers, contender.As(client, contender.Kind{Shared: true}))
	}
	if c.Contender.Traits.Permits {
		takers = append(takers, contender.As(client, contender.Kind{Permits: 1, Of: 2}))
	}
	use := func(i int) error {
		held, err := takers[(i+1)%len(takers)].Acquire(ctx, fmt.Sprintf("%s/%d", base, i))
		if err != nil {
			return err
		}
		return held.Release(ctx)
	}
	if err := use(-1); err != nil {
		return err
	}
	before, err := c.Site.Stored(ctx)
	if err != nil {
		return err
	}
	if err := spread(n, 32, use); err != nil {
		return err
	}
	after, err := c.Site.Stored(ctx)
	if err != nil {
		return err
	}
	if !reaps {
		c.Put("left behind", float64(after-before)/float64(n))
		return nil
	}
	for start := time.Now(); after > before && time.Since(start) < 15*time.Second; {
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		if after, err = c.Site.Stored(ctx); err != nil {
			return err
		}
	}
	c.Put("left later", math.Max(0, float64(after-before))/float64(n))
	return nil
}
