package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
		Metrics: slices.Concat(
			[]Metric{{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquisitions a second, of both kinds and all clients together"}},
			latency("read", "of a reader, from asking to holding"),
			latency("write", "of a writer, from asking to holding"),
			[]Metric{
				{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
				{Name: "wake-ups", Better: -1, Meaning: "messages that the servers sent unasked, for one acquisition"},
				{Name: "wrong together", Better: -1, Meaning: "times that somebody got the name while another held it with whom it may not be shared"},
			}),
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
		Fits:     withReaders,
		Do:       doReadWrite,
	}
}

func doReadWrite(ctx context.Context, c *Cell) error {
	clients, err := c.OpenN(ctx, c.Case.N)
	if err != nil {
		return err
	}
	m := &mixture{writes: c.Case.Writes, reading: measure.NewHistogram(), writing: measure.NewHistogram()}
	for i := range clients {
		clients[i] = m.client(clients[i])
	}
	p := c.passOf(clients)
	k := contest{warm: untimed, window: time.Second, atOnce: int64(len(clients))} // m sees who may not hold it together
	t, err := p(ctx, k)
	if err != nil {
		return err
	}
	c.putTally(t, k)
	c.PutLatency("read", m.reading)
	c.PutLatency("write", m.writing)
	if c.Rep == 0 {
		err = c.count(ctx, t, p, k)
	}
	c.PutCount("wrong together", m.wrong.Load())
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

// client has a client take names to write or, mostly, to read.
func (m *mixture) client(writer contender.Client) contender.Client {
	reader := writer.As(contender.Kind{Shared: true})
	return contender.Client{Acquire: func(ctx context.Context, name string) (contender.Held, error) {
		client, waits, holders := reader, m.reading, &m.readers
		write := rand.IntN(100) < m.writes
		if write {
			client, waits, holders = writer, m.writing, &m.writers
		}
		start := time.Now()
		held, err := client.Acquire(ctx, name)
		took := time.Since(start)
		if err != nil {
			return nil, err
		}
		sameKind := holders.Add(1)
		if write && (sameKind > 1 || m.readers.Load() > 0) || !write && m.writers.Load() > 0 {
			m.wrong.Add(1)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		waits.Record(took)
		return contender.Plain(func(ctx context.Context) error {
			holders.Add(-1)
			return held.Release(ctx)
		}), nil
	}}
}
