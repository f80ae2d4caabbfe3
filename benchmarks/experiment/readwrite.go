package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

func readWrite() Experiment {
	return Experiment{
		Name:     "read-write",
		Title:    "Readers and writers",
		Question: "What does a name cost that is mostly read, and how long does either kind wait as writes become more?",
		Method: "16 clients take one name and give it back at once, as often as they can. Each acquisition is a write with the chance that the case names, and a read otherwise. " +
			"Requests and wake-ups are counted in passes of their own, which are not timed, in the first repetition only.",
		Metrics: append(append(append([]Metric{
			{Name: "rate", Unit: "/s", Better: 1, Plot: true, Meaning: "acquisitions a second, of both kinds and all clients together"},
		}, latency("read", "of a reader, from asking to holding")...), latency("write", "of a writer, from asking to holding")...),
			Metric{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
			Metric{Name: "wake-ups", Better: -1, Meaning: "messages that the servers sent unasked, for one acquisition"},
			Metric{Name: "wrong together", Better: -1, Meaning: "times that somebody got the name while another held it with whom it may not be shared"},
		),
		Cases: func(d Depth) []Case {
			writes := []int{1, 10, 50}
			if d == Smoke {
				writes = writes[2:]
			}
			var all []Case
			for _, percent := range writes {
				all = append(all, Case{Name: fmt.Sprintf("%d %% writes", percent), N: 16, Writes: percent})
			}
			return all
		},
		Repeat:   func(d Depth) int { return pick(d, 1, 2, 6) },
		InTurn:   true, // the shares are compared with one another
		OnDemand: true,
		Fits: func(d Depth, c contender.Contender, _ Case) bool {
			return !c.Aside && c.Traits.Shared && c.Setup.Service != contender.Memory && c.Setup.Variant == contender.Usual && (d == Full || c.Setup.Nodes != 3)
		},
		Do: doReadWrite,
	}
}

func doReadWrite(ctx context.Context, c *Cell) error {
	clients, err := c.OpenN(ctx, c.Case.N)
	if err != nil {
		return err
	}
	m := &mixture{writes: c.Case.Writes, reading: measure.NewHistogram(), writing: measure.NewHistogram()}
	for i := range clients {
		clients[i] = mixed{clients[i], m}
	}
	name := c.LockName()
	pass := func(k contest) (*tally, error) {
		k.atOnce = int64(len(clients)) // m sees who may not hold it together
		return compete(ctx, clients, name, k)
	}
	t, err := pass(contest{warm: c.Depth.window(untimed), window: c.Depth.window(time.Second)})
	if err != nil {
		return err
	}
	c.Put("rate", t.rate)
	c.PutLatency("read", m.reading)
	c.PutLatency("write", m.writing)
	err = c.countPass(ctx, func() (int64, error) {
		t, err := pass(contest{window: c.Depth.window(300 * time.Millisecond)})
		if err != nil {
			return 0, err
		}
		return t.all, nil
	})
	c.Put("wrong together", float64(m.wrong.Load()))
	return err
}

// mixture is what the clients of one name do together.
type mixture struct {
	writes           int // percent of the acquisitions
	readers, writers atomic.Int64
	wrong            atomic.Int64

	mu               sync.Mutex
	reading, writing *measure.Histogram
}

// enter notes a new holder, and whether it may hold the name with those who do.
func (m *mixture) enter(write bool) {
	if write {
		if m.writers.Add(1) > 1 || m.readers.Load() > 0 {
			m.wrong.Add(1)
		}
		return
	}
	m.readers.Add(1)
	if m.writers.Load() > 0 {
		m.wrong.Add(1)
	}
}

// leave notes that a holder is about to let go.
func (m *mixture) leave(write bool) {
	if write {
		m.writers.Add(-1)
	} else {
		m.readers.Add(-1)
	}
}

// mixed is a client that takes names to write or, mostly, to read.
type mixed struct {
	contender.Client
	m *mixture
}

func (c mixed) Acquire(ctx context.Context, name string) (contender.Held, error) {
	write := rand.IntN(100) < c.m.writes
	client, waits := contender.As(c.Client, contender.Kind{Shared: true}), c.m.reading
	if write {
		client, waits = c.Client, c.m.writing
	}
	start := time.Now()
	held, err := client.Acquire(ctx, name)
	took := time.Since(start)
	if err != nil {
		return nil, err
	}
	c.m.enter(write)
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	waits.Record(took)
	return mixedHeld{held, c.m, write}, nil
}

type mixedHeld struct {
	contender.Held
	m     *mixture
	write bool
}

func (h mixedHeld) Release(ctx context.Context) error {
	h.m.leave(h.write)
	return h.Held.Release(ctx)
}
