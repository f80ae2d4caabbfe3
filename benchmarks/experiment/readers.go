package experiment

import (
	"context"
	"math/rand/v2"
	"sync"
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

// readerClients is how many clients the readers share.
const readerClients = 16

func readers() Experiment {
	return Experiment{
		Name:     "readers",
		Title:    "Readers",
		Question: "Do shared holders get in each other's way, and does a writer get its turn among them?",
		Method: "64 readers on 16 clients, four on each. First they take one name, shared, and give it back at once, as often as they can; that is compared with 64 names, exclusive, one for each. " +
			"Then a writer on a client of its own takes the name again and again, while the readers come and go half as fast as 16 clients hand it on exclusively: " +
			"the time that such a hand-over takes is measured just before, and is the unit for the writer's wait. Requests and wake-ups are counted in passes of their own, which are not timed, in the first repetition only.",
		Metrics: append(append([]Metric{
			{Name: "rate", Unit: "/s", Better: 1, Plot: true, Meaning: "acquisitions a second, of all readers together"},
		}, latency("writer's wait", "of the writer, from asking to holding")...),
			Metric{Name: "in hand-overs", Better: -1, Plot: true, Meaning: "the writer's wait, p99, divided by the time that a hand-over takes"},
			Metric{Name: "overtaken", Better: -1, Meaning: "by how many readers that asked later the unluckiest turn of the writer was overtaken"},
			Metric{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
			Metric{Name: "wake-ups", Better: -1, Meaning: "messages that the servers sent unasked, for one acquisition"},
		),
		Cases: func(Depth) []Case {
			return []Case{
				{Name: oneName, N: 64, How: oneName},
				{Name: manyNames, N: 64, How: manyNames},
				{Name: oneWriter, N: 64, How: oneWriter},
			}
		},
		Repeat: func(d Depth) int { return pick(d, 2, 2, 8) },
		InTurn: true, // one name is compared with many
		Fits: func(d Depth, c contender.Contender, _ Case) bool {
			return !c.Aside && c.Traits.Shared && c.Setup.Service != contender.Memory && c.Setup.Variant == contender.Usual && (d == Full || c.Setup.Nodes != 3)
		},
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

// own is a client that takes one name, whatever it is asked for.
type own struct {
	contender.Client
	name string
}

func (o own) Acquire(ctx context.Context, _ string) (contender.Held, error) {
	return o.Client.Acquire(ctx, o.name)
}

func doReaders(ctx context.Context, c *Cell, clients []contender.Client) error {
	all := make([]contender.Client, c.Case.N)
	for i := range all {
		all[i] = contender.As(clients[i%len(clients)], contender.Kind{Shared: true})
		if c.Case.How == manyNames {
			all[i] = own{clients[i%len(clients)], c.LockName()}
		}
	}
	name := c.LockName()
	pass := func(k contest) (*tally, error) {
		k.atOnce = int64(len(all))
		return compete(ctx, all, name, k)
	}
	t, err := pass(contest{warm: c.Depth.window(untimed), window: c.Depth.window(400 * time.Millisecond)})
	if err != nil {
		return err
	}
	c.Put("rate", t.rate)
	return c.countPass(ctx, func() (int64, error) {
		t, err := pass(contest{window: c.Depth.window(200 * time.Millisecond)})
		if err != nil {
			return 0, err
		}
		return t.all, nil
	})
}

// countPass counts, in the first repetition, what the acquisitions of pass cost the servers.
func (c *Cell) countPass(ctx context.Context, pass func() (int64, error)) error {
	if c.Rep > 0 {
		return nil
	}
	for metric, count := range map[string]func(context.Context, func() error) (int64, error){
		"requests": c.Site.Requests, "wake-ups": c.Site.Notifications,
	} {
		var all int64
		n, err := count(ctx, func() (err error) {
			all, err = pass()
			return err
		})
		if err != nil {
			return err
		}
		c.Put(metric, float64(n)/float64(max(1, all)))
	}
	return nil
}

func doWriter(ctx context.Context, c *Cell, clients []contender.Client) error {
	writer, err := c.Open(ctx)
	if err != nil {
		return err
	}
	name := c.LockName()
	t, err := compete(ctx, clients, name, contest{warm: c.Depth.window(untimed), window: c.Depth.window(200 * time.Millisecond)})
	if err != nil {
		return err
	}
	handOver := max(t.handOver.Quantile(.5), time.Microsecond)
	pass := func(window time.Duration) (*mix, error) {
		m := &mix{name: name, handOver: handOver, readers: c.Case.N, waits: measure.NewHistogram(), origin: time.Now()}
		return m, m.run(ctx, writer, clients, window)
	}
	m, err := pass(c.Depth.window(pick(c.Depth, time.Second, time.Second, 2*time.Second)))
	if err != nil {
		return err
	}
	c.PutLatency("writer's wait", m.waits)
	c.Put("in hand-overs", float64(m.waits.Quantile(.99))/float64(handOver))
	c.Put("overtaken", float64(m.worst))
	return c.countPass(ctx, func() (int64, error) {
		m, err := pass(c.Depth.window(400 * time.Millisecond))
		return m.got.Load(), err
	})
}

// mix is a writer and readers who come and go.
type mix struct {
	name     string
	handOver time.Duration
	readers  int
	origin   time.Time
	waits    *measure.Histogram // of the writer
	worst    int64              // the most readers that overtook it in one turn

	over   atomic.Bool
	got    atomic.Int64
	asked  atomic.Int64 // when the writer asked that waits, since origin; 0 if it does not
	passed atomic.Int64 // readers that asked after it and have had the name since
}

func (m *mix) run(ctx context.Context, writer contender.Client, clients []contender.Client, window time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(window, func() { m.over.Store(true) })
	defer timer.Stop()
	var wg sync.WaitGroup
	repeat := func(client contender.Client, turn func(context.Context, contender.Client) error, apart time.Duration) {
		wg.Go(func() {
			for !m.over.Load() && ctx.Err() == nil {
				err := pause(ctx, rand.N(2*apart))
				if err == nil {
					err = turn(ctx, client)
				}
				if err != nil {
					cancel(err) // the first one counts
				}
			}
		})
	}
	for i := range m.readers {
		reader := contender.As(clients[i%len(clients)], contender.Kind{Shared: true})
		repeat(reader, m.read, 2*time.Duration(m.readers)*m.handOver)
	}
	repeat(writer, m.write, 20*m.handOver)
	wg.Wait()
	return context.Cause(ctx)
}

func (m *mix) read(ctx context.Context, client contender.Client) error {
	asked := int64(time.Since(m.origin))
	held, err := client.Acquire(ctx, m.name)
	if err != nil {
		return err
	}
	m.got.Add(1)
	if writer := m.asked.Load(); writer > 0 && asked > writer {
		m.passed.Add(1)
	}
	return held.Release(ctx)
}

func (m *mix) write(ctx context.Context, client contender.Client) error {
	start := time.Now()
	m.passed.Store(0)
	m.asked.Store(int64(start.Sub(m.origin)))
	held, err := client.Acquire(ctx, m.name)
	m.asked.Store(0)
	if err != nil {
		return err
	}
	m.waits.Record(time.Since(start))
	m.got.Add(1)
	m.worst = max(m.worst, m.passed.Load())
	return held.Release(ctx)
}
