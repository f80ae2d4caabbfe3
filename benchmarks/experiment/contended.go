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

const oneClient = "goroutines of one client"

func contended() Experiment {
	return Experiment{
		Name:     "contended",
		Title:    "Contended",
		Question: "How fast does a lock go from hand to hand, and does everybody get the same of it?",
		Method: "Each client takes the name and gives it back at once, as often as it can. For the first tenth of a second that is not measured, so that what is shown is not how long it takes to connect; the time until each had the lock once is a figure of its own. " +
			"Separate clients have connections of their own but live in one process, so that their moments can be compared; where they are goroutines of one client, they share it. " +
			"Requests are counted in a pass of their own, which is not timed, in the first repetitions only.",
		Metrics: append([]Metric{
			{Name: "rate", Unit: "/s", Better: 1, Plot: true, Meaning: "acquisitions a second, of all clients together"},
		}, append(append(latency("acquire", "from asking to holding"), latency("hand-over", "from the call of Release to the next holder having it")...),
			Metric{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
			Metric{Name: "unluckiest", Better: 1, Minor: true, Meaning: "share of the client that got least, 1 being an equal share"},
			Metric{Name: "luckiest", Better: -1, Minor: true, Meaning: "share of the client that got most"},
			Metric{Name: "largest/smallest", Better: -1, Plot: true, Meaning: "the one share divided by the other"},
			Metric{Name: "all once", Unit: "ms", Better: -1, Minor: true, Meaning: "from the start, when nobody is connected yet, until each client had the lock once; nothing if one had to wait until the end"},
			Metric{Name: "two inside", Better: -1, Meaning: "how often somebody got the lock while another held it"},
			Metric{Name: "stuck", Better: -1, Meaning: "clients that still waited two seconds after the lock had been free for the last time"})...),
		Cases: func(d Depth) []Case {
			sixteen := Case{Name: "16 clients", N: 16}
			far := Case{Name: "16 clients, 1 ms of network", N: 16, Delay: time.Millisecond, Times: pick(d, 2, 4, 4)}
			shared := Case{Name: "16 " + oneClient, N: 16, How: oneClient}
			if d != Full {
				return []Case{sixteen, far, shared}
			}
			return []Case{{Name: "2 clients", N: 2, Times: 4}, sixteen, far, {Name: "64 clients", N: 64, Times: 4}, shared}
		},
		Repeat: func(d Depth) int { return pick(d, 2, 4, 12) },
		Crowds: true,
		InTurn: true, // the goroutines of one client are compared with separate clients
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if c.Setup.Service == contender.Memory && k.How != oneClient {
				return false // separate memory Lockers know nothing of each other
			}
			if k.Delay > 0 && d != Full && c.Setup != (contender.Setup{Service: contender.Redis, Nodes: 1}) {
				return false
			}
			if d != Full && k.How == oneClient && (c.Role == contender.Exhibit || c.Role == contender.Rival && c.Family != "etcd.Mutex" || c.Setup.Nodes == 3) {
				return false // shows nothing that separate clients do not
			}
			if d == Short && (c.Aside || c.Setup.Variant == contender.NoSync || c.Setup.Nodes == 3 && c.Role != contender.Ours) {
				return false
			}
			return c.Traits.Waits && (c.Role != contender.Exhibit || onRedis(c)) && c.Setup.Variant != contender.BlackHole
		},
		Do: doContended,
	}
}

// untimed is for how long clients compete before it is measured.
const untimed = 100 * time.Millisecond

func doContended(ctx context.Context, c *Cell) error {
	if c.Case.Delay > 0 {
		delayed, err := c.Site.Delayed(c.Case.Delay)
		if err != nil {
			return err
		}
		defer delayed.Close()
		defer c.close() // before the network
		c.Site = delayed
	}
	counted := c.Rep == 0 || c.Depth == Full && c.Rep < countedReps
	var t *tally
	var err error
	if c.Contender.OpenCrowd != nil {
		t, err = c.contendedCrowd(ctx, counted)
	} else {
		t, err = c.contendedClients(ctx, counted)
	}
	if err != nil {
		return err
	}
	c.Put("rate", t.rate)
	c.PutLatency("acquire", t.acquire)
	c.PutLatency("hand-over", t.handOver)
	least, greatest, ratio := measure.Shares(t.counts)
	c.Put("unluckiest", least)
	c.Put("luckiest", greatest)
	c.Put("largest/smallest", ratio)
	if t.once != nil && slices.Max(t.once) < never {
		c.Put("all once", float64(slices.Max(t.once).Microseconds())/1000)
	}
	c.Put("two inside", float64(t.overlaps))
	c.Put("stuck", float64(t.stuck))
	return nil
}

// contendedWindow is for how long it is measured, crowdCounted for how long requests are counted.
const (
	contendedWindow = 400 * time.Millisecond
	crowdCounted    = 300 * time.Millisecond
)

// contendedClients has clients of this process compete.
func (c *Cell) contendedClients(ctx context.Context, counted bool) (*tally, error) {
	clients, err := c.crowd(ctx)
	if err != nil {
		return nil, err
	}
	name := c.LockName()
	runtime.GC()
	t, err := compete(ctx, clients, name, contest{warm: c.Depth.window(untimed), window: c.Depth.window(contendedWindow)})
	if err != nil || !counted {
		return t, err
	}
	// Counted afterwards, so that what is done once for a name is not among it.
	var again *tally
	requests, err := c.Site.Requests(ctx, func() (err error) {
		again, err = compete(ctx, clients, name, contest{window: c.Depth.window(crowdCounted)})
		return err
	})
	if err != nil {
		return nil, err
	}
	c.Put("requests", float64(requests)/float64(again.all))
	t.overlaps, t.stuck = t.overlaps+again.overlaps, t.stuck+again.stuck
	return t, nil
}

// contendedCrowd has clients in a process of their own compete.
func (c *Cell) contendedCrowd(ctx context.Context, counted bool) (*tally, error) {
	length := time.Duration(0)
	if counted {
		length = crowdCounted
	}
	t, _, err := c.crowdTally(ctx, c.Case.N, c.Depth.window(contendedWindow), length)
	return t, err
}

// crowd opens the clients of a case: N of them, or one N times.
func (c *Cell) crowd(ctx context.Context) ([]contender.Client, error) {
	if c.Case.How != oneClient {
		return c.OpenN(ctx, c.Case.N)
	}
	one, err := c.Open(ctx)
	all := make([]contender.Client, c.Case.N)
	for i := range all {
		all[i] = one
	}
	return all, err
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
}

// stuckAfter is how long a competition waits at its end for those who wait for a lock that
// nobody holds.
const stuckAfter = 2 * time.Second

// never is when a client had the lock that did not get it.
const never = time.Duration(math.MaxInt64)

// contest is how clients compete.
type contest struct {
	warm, window time.Duration // what is not measured, and what is
	atOnce       int64         // how many may hold the name together; 0 is 1
	hold         time.Duration // for how long each holds it, on average
}

// compete has all clients take name in turn, and measures that. Whoever then still waits gets
// the lock once more, which is not counted.
func compete(ctx context.Context, clients []contender.Client, name string, k contest) (*tally, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &race{
		name:   name,
		hold:   k.hold,
		atOnce: max(1, k.atOnce),
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
	_ = pause(ctx, k.warm)
	r.open.Store(true)
	start := time.Now()
	_ = pause(ctx, k.window)
	r.over.Store(true)
	took := time.Since(start)
	r.awaitEnd(ctx, &wg, cancel)

	if r.err != nil {
		return nil, r.err
	}
	var sum int64
	for _, count := range r.counts {
		sum += count
	}
	if r.got.Load() == 0 {
		return nil, errors.New("nobody got the lock")
	}
	r.rate = float64(sum) / took.Seconds()
	r.held = float64(r.heldFor.Load()) / float64(took)
	r.all, r.overlaps = r.got.Load(), r.double.Load()
	return &r.tally, nil
}

// race is the state of a competition.
type race struct {
	tally
	name     string
	hold     time.Duration
	atOnce   int64
	origin   time.Time
	heldFor  atomic.Int64 // by those who got it within the window
	released atomic.Int64 // when Release was called last, since origin
	inside   atomic.Int64
	double   atomic.Int64
	got      atomic.Int64
	open     atomic.Bool // the window has begun
	over     atomic.Bool // and ended
	late     atomic.Bool // those who wait now are stuck
	fail     func()

	mu  sync.Mutex
	err error // the first one
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
	if err != nil && r.late.Load() {
		r.stuck++
		return
	}
	if err != nil && r.err == nil {
		r.err = err
		r.fail()
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
	if r.inside.Add(1) > r.atOnce {
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
		_ = pause(ctx, r.hold/2+rand.N(r.hold)) // so that those who hold together do not keep step
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

// awaitEnd waits until all have come back. Those who are still waiting although nobody
// has had the lock for a while are stuck, and are called off.
func (r *race) awaitEnd(ctx context.Context, wg *sync.WaitGroup, cancel func()) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for {
		before := r.got.Load()
		select {
		case <-done:
			return
		case <-time.After(stuckAfter):
		}
		if r.got.Load() == before && ctx.Err() == nil {
			r.late.Store(true)
			cancel()
			<-done
			return
		}
	}
}
