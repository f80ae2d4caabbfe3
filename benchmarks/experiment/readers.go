package experiment

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

const (
	oneName   = "64 readers of one name"
	manyNames = "64 names"
	oneWriter = "a writer among 64 readers"
)

// slowestPace is the longest hand-over by which readers and writer are paced: on a server that is slower
// their pauses would add up to minutes, as each pass ends when all have come.
const slowestPace = 20 * time.Millisecond

// readerClients is how many clients the readers share.
const readerClients = 16

func readers() Experiment {
	return Experiment{
		Name:     "readers",
		Title:    "Readers",
		Question: "Do shared holders get in each other's way, and does a writer get its turn among them?",
		Method: "64 readers on 16 clients, four on each. First they take one name, shared, and give it back at once, as often as they can; that is compared with 64 names, exclusive, one for each. " +
			"Then a writer on a client of its own takes the name again and again, while the readers come and go half as fast as 16 clients hand it on exclusively: " +
			"the time that such a hand-over takes is measured just before, and is the unit for the writer's wait. Where it takes longer than 20 ms, readers and writer come as if it took 20 ms. Requests and wake-ups are counted in passes of their own, which are not timed, in the first repetition only.",
		Metrics: slices.Concat(
			[]Metric{{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquisitions a second, of all readers together"}},
			latency("writer's wait", "of the writer, from asking to holding"),
			[]Metric{
				{Name: "in hand-overs", Better: -1, Meaning: "the writer's wait, p99, divided by the time that a hand-over takes"},
				{Name: "overtaken", Better: -1, Meaning: "by how many readers that asked later the unluckiest turn of the writer was overtaken"},
				{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
				{Name: "wake-ups", Better: -1, Meaning: "messages that the servers sent unasked, for one acquisition"},
			}),
		Cases: func(Depth) []Case {
			return []Case{
				{Name: oneName, N: 64, How: oneName},
				{Name: manyNames, N: 64, How: manyNames},
				{Name: oneWriter, N: 64, How: oneWriter},
			}
		},
		Repeat: func(d Depth) int { return pick(d, 2, 2, 8) },
		InTurn: true, // one name is compared with many
		Fits:   withReaders,
		Do: func(ctx context.Context, c *Cell) error {
			clients, err := c.OpenN(ctx, readerClients)
			if err != nil {
				return err
			}
			if c.Case.How == oneWriter {
				return doWriter(ctx, c, clients)
			}
			return doReaders(ctx, c, clients)
		},
	}
}

func doReaders(ctx context.Context, c *Cell, clients []contender.Client) error {
	all := make([]contender.Client, c.Case.N)
	for i := range all {
		client := clients[i%len(clients)]
		all[i] = client.As(contender.Kind{Shared: true})
		if c.Case.How == manyNames {
			own := c.LockName()
			all[i].Acquire = func(ctx context.Context, _ string) (contender.Held, error) { return client.Acquire(ctx, own) }
		}
	}
	k := contest{warm: untimed, window: 400 * time.Millisecond, atOnce: int64(len(all))}
	return c.contest(ctx, c.passOf(all), k, c.Rep == 0)
}

func doWriter(ctx context.Context, c *Cell, clients []contender.Client) error {
	writer, err := c.Open(ctx)
	if err != nil {
		return err
	}
	t, err := c.passOf(clients)(ctx, contest{warm: untimed, window: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	handOver := max(t.handOver.Quantile(.5), time.Microsecond)
	pace := min(handOver, slowestPace)
	w := &watch{waits: measure.NewHistogram(), origin: time.Now()}
	all := []contender.Client{paced(w.writer(writer.Acquire), 20*pace)}
	for i := range c.Case.N {
		reader := clients[i%len(clients)].As(contender.Kind{Shared: true})
		all = append(all, paced(w.reader(reader.Acquire), 2*time.Duration(c.Case.N)*pace))
	}
	p := c.passOf(all)
	k := contest{window: pick(c.Depth, time.Second, time.Second, 2*time.Second), atOnce: int64(len(all))}
	if t, err = p(ctx, k); err != nil {
		return err
	}
	c.PutLatency("writer's wait", w.waits)
	c.Put("in hand-overs", float64(w.waits.Quantile(.99))/float64(handOver))
	c.PutCount("overtaken", w.worst)
	if c.Rep > 0 {
		return nil
	}
	return c.count(ctx, t, p, k)
}

// watch sees how a writer fares among readers who come and go.
type watch struct {
	origin time.Time
	waits  *measure.Histogram // of the writer
	worst  int64              // the most readers that overtook it in one turn

	asked  atomic.Int64 // when the writer asked that waits, since origin; 0 if it does not
	passed atomic.Int64 // readers that asked after it and have had the name since
}

// reader has those who take a name as take does be seen to overtake the writer.
func (w *watch) reader(take contender.Taking) contender.Taking {
	return func(ctx context.Context, name string) (contender.Held, error) {
		asked := int64(time.Since(w.origin))
		held, err := take(ctx, name)
		if writer := w.asked.Load(); err == nil && writer > 0 && asked > writer {
			w.passed.Add(1)
		}
		return held, err
	}
}

// writer notes how long the writer waits, and how many overtake it.
func (w *watch) writer(take contender.Taking) contender.Taking {
	return func(ctx context.Context, name string) (contender.Held, error) {
		start := time.Now()
		w.passed.Store(0)
		w.asked.Store(int64(start.Sub(w.origin)))
		held, err := take(ctx, name)
		w.asked.Store(0)
		if err == nil {
			w.waits.Record(time.Since(start))
			w.worst = max(w.worst, w.passed.Load())
		}
		return held, err
	}
}

// paced returns a client that pauses before each turn, for so long on average.
func paced(take contender.Taking, apart time.Duration) contender.Client {
	return contender.Client{Acquire: func(ctx context.Context, name string) (contender.Held, error) {
		if err := contender.Pause(ctx, rand.N(2*apart)); err != nil {
			return nil, err
		}
		return take(ctx, name)
	}}
}
