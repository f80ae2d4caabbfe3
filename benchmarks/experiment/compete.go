package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

const (
	// untimed is for how long clients compete before it is measured.
	untimed = 100 * time.Millisecond
	// stuckAfter is how long a competition waits at its end for those who wait for a lock that
	// nobody holds.
	stuckAfter = 2 * time.Second
	// looks is how often it is looked before somebody counts as stuck: this process may have stood still between two.
	looks = 10
	// lateBy is by how much longer a machine with much else to do may take until somebody gets the lock.
	lateBy = 10 * time.Second
	// never is when a client had the lock that did not get it.
	never = time.Duration(math.MaxInt64)
	// countedReps is in how many repetitions requests are counted: their number does not
	// depend on how busy the machine is.
	countedReps = 2
)

// contest is how clients compete.
type contest struct {
	warm, window time.Duration // what is not measured, and what is
	atOnce       int64         // how many may hold the name together; 0 is 1
	hold         time.Duration // for how long each holds it, on average
}

// tally is what came of a competition.
type tally struct {
	rate     float64
	held     float64         // how many held the name at a time, on average
	counts   []int64         // of each client, within the window
	once     []time.Duration // when each client had the lock first, since the start
	all      int64           // also those before and after the window
	overlaps int64           // times that more held it than may
	stuck    int64
	acquire  *measure.Histogram
	handOver *measure.Histogram
	pair     *measure.Histogram // of a crowd only
}

// pass has those who compete in a cell take one name in turn, each as often as it can.
type pass func(ctx context.Context, k contest) (*tally, error)

// compete has the clients of the case compete, over the case's network, and puts what comes of it.
func (c *Cell) compete(ctx context.Context, k contest, counted bool) error {
	if err := c.Delay(); err != nil {
		return err
	}
	p, err := c.contenders(ctx)
	if err != nil {
		return err
	}
	return c.contest(ctx, p, k, counted)
}

// contest puts what comes of one pass, and of another in which requests are counted if they are to be.
func (c *Cell) contest(ctx context.Context, p pass, k contest, counted bool) error {
	runtime.GC()
	t, err := p(ctx, k)
	if err == nil && counted {
		// Afterwards, so that what is done once for a name is not among it.
		err = c.count(ctx, t, p, k)
	}
	if err == nil {
		c.putTally(t, k)
	}
	return err
}

// contenders opens the clients of the case, in this process or in one of their own, and returns how to have them compete.
func (c *Cell) contenders(ctx context.Context) (pass, error) {
	if c.Contender.OpenCrowd == nil {
		clients, err := c.OpenCase(ctx)
		return c.passOf(clients), err
	}
	crowd, err := c.Contender.OpenCrowd(ctx, c.config(), max(1, c.Case.N))
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	c.closeLater(crowd.Close)
	name := c.LockName()
	return func(ctx context.Context, k contest) (*tally, error) {
		came, err := crowd.Compete(ctx, name, k.warm, k.window)
		if err != nil {
			return nil, err
		}
		return &tally{
			rate: float64(measure.Sum(came.Counts)) / came.Took.Seconds(), counts: came.Counts,
			all: int64(len(came.Acquire)), overlaps: came.Overlaps, stuck: came.Stuck,
			acquire: histogram(came.Acquire), handOver: histogram(came.HandOver), pair: histogram(came.Pair),
		}, nil
	}, nil
}

// passOf returns how to have clients compete for a name.
func (c *Cell) passOf(clients []contender.Client) pass {
	name := c.LockName()
	return func(ctx context.Context, k contest) (*tally, error) {
		k.warm, k.window = c.Depth.window(k.warm), c.Depth.window(k.window)
		return compete(ctx, clients, name, k)
	}
}

// count puts what an acquisition costs the servers, each metric of it in a pass of its own in which nobody holds for
// longer than it must. What goes wrong meanwhile is added to t.
func (c *Cell) count(ctx context.Context, t *tally, p pass, k contest) error {
	k.warm, k.hold, k.window = 0, 0, 300*time.Millisecond
	for _, m := range c.Experiment.Metrics {
		var count func(context.Context, func() error) (int64, error)
		switch {
		case m.Name == "requests":
			count = c.Site.Requests
		case m.Name == "wake-ups" && c.Contender.Setup.CountsMessages():
			count = c.Site.Notifications
		default:
			continue
		}
		var again *tally
		n, err := count(ctx, func() (err error) {
			again, err = p(ctx, k)
			return err
		})
		if err != nil {
			return err
		}
		c.Put(m.Name, float64(n)/float64(max(1, again.all)))
		t.overlaps, t.stuck = t.overlaps+again.overlaps, t.stuck+again.stuck
	}
	return nil
}

// putTally puts what the experiment has metrics for.
func (c *Cell) putTally(t *tally, k contest) {
	least, greatest, ratio := measure.Shares(t.counts)
	figures := map[string]float64{
		"rate": t.rate, "unluckiest": least, "luckiest": greatest, "largest/smallest": ratio,
		"idle":       100 * max(0, 1-t.held/float64(max(1, k.atOnce))),
		"two inside": float64(t.overlaps), "too many": float64(t.overlaps), "stuck": float64(t.stuck),
	}
	if c.Case.Delay > 0 && t.rate > 0 {
		figures["round trips"] = 1 / (t.rate * c.Case.Delay.Seconds())
	}
	if t.once != nil && slices.Max(t.once) < never {
		figures["all once"] = millis(slices.Max(t.once))
	}
	for metric, h := range map[string]*measure.Histogram{"acquire": t.acquire, "hand-over": t.handOver, "acquire+release": t.pair} {
		if h != nil && h.Count() > 0 {
			figures[metric+" p50"], figures[metric+" p99"] = millis(h.Quantile(.5)), millis(h.Quantile(.99))
		}
	}
	for _, m := range c.Experiment.Metrics {
		if v, known := figures[m.Name]; known {
			c.Put(m.Name, v)
		}
	}
}

func histogram(all []time.Duration) *measure.Histogram {
	h := measure.NewHistogram()
	for _, d := range all {
		h.Record(d)
	}
	return h
}

// compete has all clients take name in turn, and measures that. Whoever then still waits gets
// the lock once more, which is not counted.
func compete(ctx context.Context, clients []contender.Client, name string, k contest) (*tally, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &race{
		contest: k,
		name:    name,
		tally: tally{
			counts:  make([]int64, len(clients)),
			once:    slices.Repeat([]time.Duration{never}, len(clients)),
			acquire: measure.NewHistogram(), handOver: measure.NewHistogram(),
		},
		origin: time.Now(),
		fail:   cancel,
	}
	r.open.Store(k.warm == 0)
	var wg sync.WaitGroup
	for i, client := range clients {
		wg.Go(func() { r.run(ctx, client, i) })
	}
	r.atLeastOnce(ctx, k.warm) // until then they connect
	r.open.Store(true)
	start := time.Now()
	r.atLeastOnce(ctx, k.window)
	r.over.Store(true)
	took := time.Since(start)
	r.awaitEnd(ctx, &wg)

	if err := context.Cause(ctx); err != nil && !errors.Is(err, errStuck) {
		return nil, err
	}
	if r.got.Load() == 0 {
		return nil, errors.New("nobody got the lock")
	}
	r.rate = float64(measure.Sum(r.counts)) / took.Seconds()
	r.held = float64(r.heldFor.Load()) / float64(took)
	r.all, r.overlaps = r.got.Load(), r.double.Load()
	return &r.tally, nil
}

// race is the state of a competition.
type race struct {
	contest
	tally
	name     string
	origin   time.Time
	heldFor  atomic.Int64 // by those who got it within the window
	released atomic.Int64 // when Release was called last, since origin
	inside   atomic.Int64
	double   atomic.Int64
	got      atomic.Int64
	open     atomic.Bool // the window has begun
	over     atomic.Bool // and ended
	fail     func(error) // the first reason counts
	mu       sync.Mutex
}

func (r *race) run(ctx context.Context, client contender.Client, i int) {
	acquire, handOver := measure.NewHistogram(), measure.NewHistogram()
	var err error
	for err == nil && !r.over.Load() {
		err = r.turn(ctx, client, i, acquire, handOver)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acquire.Merge(acquire)
	r.handOver.Merge(handOver)
	if err != nil && errors.Is(context.Cause(ctx), errStuck) {
		r.stuck++
	} else if err != nil {
		r.fail(err)
	}
}

// turn takes the lock and gives it back once.
func (r *race) turn(ctx context.Context, client contender.Client, i int, acquire, handOver *measure.Histogram) error {
	asked := time.Now()
	held, err := client.Acquire(ctx, r.name)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	got := time.Now()
	if r.inside.Add(1) > max(1, r.atOnce) {
		r.double.Add(1)
	}
	r.got.Add(1)
	if r.once[i] == never {
		r.once[i] = got.Sub(r.origin)
	}
	open := r.open.Load()
	// Those who asked early, or in time and got it late, count among the latencies: they are
	// the longest.
	if open {
		acquire.Record(got.Sub(asked))
	}
	counts := open && !r.over.Load()
	if counts {
		r.counts[i]++
		if last := r.released.Load(); last > 0 {
			handOver.Record(got.Sub(r.origin) - time.Duration(last))
		}
	}
	if r.hold > 0 && !r.over.Load() {
		_ = contender.Pause(ctx, r.hold/2+rand.N(r.hold)) // so that those who hold together do not keep step
		if counts {
			r.heldFor.Add(int64(time.Since(got)))
		}
	}
	r.inside.Add(-1)
	r.released.Store(int64(time.Since(r.origin)))
	if err := held.Release(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// atLeastOnce waits for d, and then for up to lateBy until somebody has got the lock meanwhile.
func (r *race) atLeastOnce(ctx context.Context, d time.Duration) {
	before := r.got.Load()
	err := contender.Pause(ctx, d)
	for end := time.Now().Add(lateBy); err == nil && r.got.Load() == before && time.Now().Before(end); {
		err = contender.Pause(ctx, time.Millisecond)
	}
}

// awaitEnd waits until all have come back. Those who are still waiting although nobody
// has had the lock for a while are stuck, and are called off.
func (r *race) awaitEnd(ctx context.Context, wg *sync.WaitGroup) {
	back := make(chan struct{})
	go func() {
		wg.Wait()
		close(back)
	}()
	before, idle := r.got.Load(), 0 // looks that found nobody who had had it
	for {
		select {
		case <-back:
			return
		case <-time.After(stuckAfter / looks):
		}
		idle++
		if now := r.got.Load(); now != before {
			before, idle = now, 0
		}
		if idle == looks && ctx.Err() == nil {
			r.fail(errStuck)
		}
	}
}
