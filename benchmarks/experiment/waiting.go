package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

func waiting() Experiment {
	return Experiment{
		Name:     "waiting",
		Title:    "Waiting",
		Question: "What do those cost who only wait? (Polling against watching.)",
		Method: "One client holds the name, the others wait for it and nothing happens. " +
			"The CPU of the waiting process is measured first, then the requests, those that keep sessions and leases alive among them. " +
			"On Redis and PostgreSQL this project's waiters look once in a holder's TTL for themselves; their requests are counted over a whole one, of 15 s, which is the default. With a shorter TTL there are more in proportion. " +
			"Then the holder lets go, everybody has a turn and releases at once, and the requests until the last one has had it are counted, without those that keep an etcd lease alive.",
		Metrics: []Metric{
			{Name: "requests", Unit: "/s", Better: -1, Minor: true, Meaning: "requests at the servers from all waiters together"},
			{Name: "requests per waiter", Unit: "/s", Better: -1, Meaning: "the same for each"},
			{Name: "beyond keep-alives", Unit: "/s", Better: -1, Meaning: "the same for each, less what keeps its session or lease alive, and less what the holder asks"},
			{Name: "CPU", Unit: "ms/s", Better: -1, Meaning: "of the process that waits, all waiters together"},
			{Name: "drain", Better: -1, Meaning: "requests for each waiter, from the release until all have had their turn, less those that keep leases alive"},
			{Name: "drain time", Unit: "ms", Better: -1, Minor: true, Meaning: "how long that took"},
			{Name: "stuck", Better: -1, Meaning: "waiters that were still waiting three seconds after the lock had been free for the last time"},
		},
		Cases: func(d Depth) []Case {
			clients := func(n int) Case {
				name := fmt.Sprintf("%d clients", n)
				if n == 1 {
					name = "1 client"
				}
				return Case{Name: name, N: n, TTL: 3 * beat}
			}
			if d != Full {
				n := d.smaller(100)
				return []Case{clients(n), {Name: fmt.Sprint(n, " ", oneClient), N: n, How: oneClient, TTL: 3 * beat}}
			}
			shared := Case{Name: "100 " + oneClient, N: 100, How: oneClient, TTL: 3 * beat}
			readers := Case{Name: "100 readers behind a writer", N: 100, How: manyReaders, TTL: 3 * beat}
			permits := Case{Name: "100 clients for 1 of 10 permits", N: 100, How: onePermit, TTL: 3 * beat}
			return []Case{clients(1), clients(10), clients(100), clients(1000), shared, readers, permits}
		},
		Repeat: func(Depth) int { return 1 },
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if k.How == oneClient {
				// Two goroutines of one etcd session do not exclude each other, so
				// there is nobody who waits.
				return distributed(d, c, k) && c.Role == contender.Ours && (d == Full || c.Setup.Nodes <= 1)
			}
			if k.How == manyReaders && !c.Traits.Shared || k.How == onePermit && !c.Traits.Permits {
				return false
			}
			return distributed(d, c, k) && (c.Setup.Nodes != 3 || d == Full && k.N == 100)
		},
		Do: doWaiting,
	}
}

const manyReaders = "readers"

// beat is how often a client of ZooKeeper or etcd keeps its session or lease alive: about
// three times within its TTL. The window for counting is a whole number of beats, so that
// it sees the same number of them wherever it begins.
const beat = time.Second

// longer doubles a time in the full form, where there are enough waiters for it to matter.
func (c *Cell) longer(d time.Duration) time.Duration {
	if c.Depth == Full && c.Case.N >= 100 {
		return 2 * d
	}
	return d
}

// idle is how long requests are counted. A waiter of ours on Redis looks for itself when
// the holder's time could be over: there the window has to be as long as that, unless
// little is to be measured.
func (c *Cell) idle() time.Duration {
	if c.Depth > Quick && c.Contender.Role == contender.Ours && withoutSessions(c.Contender) && c.Case.How != oneClient {
		return c.TTL() + beat
	}
	return c.longer(beat)
}

// countIdle counts what the waiters ask while nothing happens, besides a holder that
// makes so many requests a second.
func (c *Cell) countIdle(ctx context.Context, holder float64) error {
	count := c.countKeptAlive
	if c.Contender.Setup.Service == contender.ZooKeeper {
		count = c.countPinged
	}
	all, beyond, err := count(ctx)
	if err != nil {
		return err
	}
	n := float64(c.Case.N)
	c.Put("requests", all)
	c.Put("requests per waiter", all/n)
	if !withoutSessions(c.Contender) {
		c.Put("beyond keep-alives", max(0, beyond-holder)/n)
	}
	return nil
}

// idleRate returns how many requests a second there are in a window.
func (c *Cell) idleRate(ctx context.Context, window time.Duration) (float64, error) {
	start := time.Now()
	requests, err := c.Site.Requests(ctx, func() error { return contender.Pause(ctx, window) })
	return float64(requests) / time.Since(start).Seconds(), err
}

// countHolder returns how many requests a second countIdle has to take off for a client that
// holds a lock for which nobody waits. It is asked only where the waiters' own have to be told apart.
func (c *Cell) countHolder(ctx context.Context, holder contender.Client) (float64, error) {
	if withoutSessions(c.Contender) {
		return 0, nil
	}
	held, err := holder.Acquire(ctx, c.LockName())
	if err != nil {
		return 0, fmt.Errorf("holder alone: %w", err)
	}
	rate, err := c.holderRate(ctx)
	return rate, errors.Join(err, held.Release(ctx))
}

// holderRate returns the requests of a holder alone: on ZooKeeper with its pings, because countPinged takes off only those
// of the waiters.
func (c *Cell) holderRate(ctx context.Context) (float64, error) {
	if c.Contender.Setup.Service != contender.ZooKeeper {
		_, beyond, err := c.countKeptAlive(ctx)
		return max(0, beyond), err
	}
	ping, err := c.Site.Heartbeat(ctx)
	if err != nil {
		return 0, err
	}
	return c.idleRate(ctx, 2*ping)
}

// countKeptAlive counts how many requests a second there are, and how many beyond those that
// keep a lease alive, which are counted apart.
func (c *Cell) countKeptAlive(ctx context.Context) (all, beyond float64, err error) {
	var took time.Duration
	kept, err := c.Site.KeepAlives(ctx, func() error {
		start := time.Now()
		all, err = c.idleRate(ctx, c.idle())
		took = time.Since(start)
		return err
	})
	return all, all - float64(kept)/took.Seconds(), err
}

// countPinged counts at a ZooKeeper, which does not count pings apart, how many requests
// a second there are, and how many beyond a ping of each session within a heartbeat. After a
// moment in which the machine stood still there are two of these in one: the median of
// three is taken.
func (c *Cell) countPinged(ctx context.Context) (all, beyond float64, err error) {
	ping, err := c.Site.Heartbeat(ctx)
	if err != nil {
		return 0, 0, err
	}
	sessions := float64(c.Case.N)
	if c.Case.How == oneClient {
		sessions = 1
	}
	rates := make([]float64, 3)
	for i := range rates {
		if rates[i], err = c.idleRate(ctx, ping); err != nil {
			return 0, 0, err
		}
	}
	all = measure.Median(rates)
	return all, all - sessions/ping.Seconds(), nil
}

func doWaiting(ctx context.Context, c *Cell) error {
	n := c.Case.N
	holder, err := c.Open(ctx)
	if err != nil {
		return err
	}
	alone, err := c.countHolder(ctx, holder)
	if err != nil {
		return err
	}
	clients, err := c.OpenCase(ctx)
	if err != nil {
		return err
	}
	switch c.Case.How {
	case manyReaders:
		clients = as(contender.Kind{Shared: true}, clients)
	case onePermit:
		holder = holder.As(contender.Kind{Permits: 10, Of: 10})
		clients = as(contender.Kind{Permits: 1, Of: 10}, clients)
	}
	q, err := c.lineUp(ctx, holder, clients, 0)
	if err != nil {
		return err
	}
	defer q.leave()
	if err := c.putCPU(ctx, c.longer(500*time.Millisecond)); err != nil {
		return err
	}
	if err := c.countIdle(ctx, alone); err != nil {
		return err
	}

	var took time.Duration
	served := 0
	drain := func() error {
		q.hurry()
		start := time.Now()
		err := q.held.Release(ctx)
		for err == nil && served < n {
			if _, err = q.soon(ctx); err == nil {
				served++
			}
		}
		took = time.Since(start)
		return err
	}
	var requests int64
	kept, err := c.Site.KeepAlives(ctx, func() (err error) {
		requests, err = c.Site.Requests(ctx, drain)
		return err
	})
	if err != nil && !errors.Is(err, errStuck) {
		return err
	}
	c.PutCount("stuck", int64(n-served))
	if served == n {
		c.Put("drain", float64(requests-kept)/float64(n))
		c.Put("drain time", millis(took))
	}
	return nil
}
