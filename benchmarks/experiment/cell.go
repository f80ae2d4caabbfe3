package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

// Cell is one repetition of one case with one contender.
type Cell struct {
	Experiment *Experiment
	Case       Case
	Contender  contender.Contender
	Rep        int
	Depth      Depth
	Site       *site.Site

	run     *runner
	mu      sync.Mutex
	clients []func() error // how to close each
	own     []*site.Site   // servers and networks of this cell alone
}

var names atomic.Int64

// LockName returns a name that was not used before.
func (c *Cell) LockName() string {
	return fmt.Sprintf("compare/%s/%s/%d", c.Experiment.Name, c.Contender.Name, names.Add(1))
}

// TTL of the clients of this cell. Where waiting is all that happens, those who do not
// renew have one that outlasts it, and those on Redis and on databases, which have no sessions to be kept
// alive, the usual one.
func (c *Cell) TTL() time.Duration {
	ttl := c.Case.TTL
	switch waits := c.Experiment.Name == "waiting"; {
	case waits && !c.Contender.Traits.Renews:
		ttl = 5 * time.Minute
	case ttl == 0, waits && withoutSessions(c.Contender):
		ttl = DefaultTTL
	}
	return max(ttl, c.Contender.Traits.MinTTL)
}

func (c *Cell) config() contender.Config {
	return contender.Config{Addrs: c.Site.Addrs, TTL: c.TTL(), HandOver: c.Case.HandOver}
}

// Open makes a client, which is closed when the cell is done.
func (c *Cell) Open(ctx context.Context) (contender.Client, error) {
	client, err := c.Contender.Open(ctx, c.config())
	if err != nil {
		return client, fmt.Errorf("open: %w", err)
	}
	c.closeLater(client.Close)
	return client, nil
}

func (c *Cell) closeLater(client func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = append(c.clients, client)
}

// OpenN makes n clients.
func (c *Cell) OpenN(ctx context.Context, n int) ([]contender.Client, error) {
	all := make([]contender.Client, n)
	err := spread(n, 32, func(i int) (err error) { // so that a thousand do not knock at once
		all[i], err = c.Open(ctx)
		return err
	})
	return all, err
}

// OpenCase makes the clients of the case: N of them, or one N times.
func (c *Cell) OpenCase(ctx context.Context) ([]contender.Client, error) {
	if c.Case.How != oneClient {
		return c.OpenN(ctx, max(1, c.Case.N))
	}
	one, err := c.Open(ctx)
	return slices.Repeat([]contender.Client{one}, c.Case.N), err
}

// as returns clients that take names as k says.
func as(k contender.Kind, clients []contender.Client) (all []contender.Client) {
	for _, client := range clients {
		all = append(all, client.As(k))
	}
	return all
}

// On has the cell use servers, or a network before them, of its own, which end when the cell is done.
func (c *Cell) On(s *site.Site, err error) error {
	if err == nil {
		c.Site = s
		c.own = append(c.own, s)
	}
	return err
}

// Delay puts a network of the case's delay, if it has one, before the servers.
func (c *Cell) Delay() error {
	if c.Case.Delay == 0 {
		return nil
	}
	return c.On(c.Site.Delayed(c.Case.Delay))
}

// close ends the clients of the cell, and then its servers. What a library says on closing is not our
// business here, nor how long it waits for a server that is silent.
func (c *Cell) close() {
	c.mu.Lock()
	clients := c.clients
	c.clients = nil
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, end := range clients {
		wg.Go(func() { _ = end() })
	}
	if c.Contender.Setup.Variant != contender.BlackHole {
		within(&wg, 5*time.Second)
	}
	for _, s := range c.own {
		_ = s.Close()
	}
}

// within waits for wg, but no longer than d; it reports whether all was done.
func within(wg *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// spread calls do for 0 to n-1 with so many at once.
func spread(n, atOnce int, do func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, min(n, atOnce))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && errs[w] == nil; i = next.Add(1) - 1 {
				errs[w] = do(int(i))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Put notes the value of a metric.
func (c *Cell) Put(metric string, v float64) {
	c.run.results.Add(measure.Key{Experiment: c.Experiment.Name, Case: c.Case.Name, Contender: c.Contender.Name, Metric: metric}, v)
}

// PutCount notes a count.
func (c *Cell) PutCount(metric string, n int64) { c.Put(metric, float64(n)) }

// PutLatency notes p50 and p99 of a metric, in milliseconds.
func (c *Cell) PutLatency(metric string, h *measure.Histogram) {
	if h.Count() == 0 {
		return
	}
	c.Put(metric+" p50", millis(h.Quantile(.5)))
	c.Put(metric+" p99", millis(h.Quantile(.99)))
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
