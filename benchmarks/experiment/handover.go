package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

const manyProcesses = "16 processes of 16 goroutines"

// handOverFor is for how long a process may pass the name on within itself.
const handOverFor = 5 * time.Millisecond

// throngSize is how many goroutines of one client want the name.
const throngSize = 16

func handOver() Experiment {
	return Experiment{
		Name:     "hand-over",
		Title:    "Hand-over within a process",
		Question: "What is gained if the goroutines of a process pass a name on among themselves for 5 ms, and what do other processes still get?",
		Method: "16 goroutines of one client with WithHandOver(5ms) take one name and give it back at once, as often as they can; " +
			"then the same in 16 processes at once, which are told together when to begin to count and when to end. \"Contended, 16 goroutines of one client\" is the same without the option.",
		Metrics: []Metric{
			{Name: "rate", Unit: "/s", Better: 1, Plot: true, Meaning: "acquisitions a second, of all goroutines together"},
			{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
			{Name: "largest/smallest", Better: -1, Plot: true, Meaning: "the largest share of a process, divided by the smallest"},
			{Name: "two inside", Better: -1, Meaning: "times that somebody got the lock while another goroutine of the same process had it"},
		},
		Cases: func(Depth) []Case {
			return []Case{
				{Name: "16 " + oneClient, N: throngSize, How: oneClient, HandOver: handOverFor},
				{Name: manyProcesses, N: 16, Goroutines: throngSize, How: manyProcesses, HandOver: handOverFor},
			}
		},
		Repeat: func(d Depth) int { return pick(d, 1, 1, 6) },
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if !usual(d, c, k) || !c.Traits.HandOver || d != Full && c.Setup.Nodes == 3 {
				return false
			}
			return c.Setup.Service != contender.Memory || k.How == oneClient
		},
		Do: func(ctx context.Context, c *Cell) error {
			if c.Case.How == manyProcesses {
				return doProcesses(ctx, c)
			}
			return doGoroutinesOfOne(ctx, c)
		},
	}
}

func doGoroutinesOfOne(ctx context.Context, c *Cell) error {
	clients, err := c.crowd(ctx)
	if err != nil {
		return err
	}
	name := c.LockName()
	t, err := compete(ctx, clients, name, contest{warm: c.Depth.window(untimed), window: c.Depth.window(400 * time.Millisecond)})
	if err != nil {
		return err
	}
	var counted *tally
	requests, err := c.Site.Requests(ctx, func() (err error) {
		counted, err = compete(ctx, clients, name, contest{window: c.Depth.window(200 * time.Millisecond)})
		return err
	})
	if err != nil {
		return err
	}
	c.Put("requests", float64(requests)/float64(counted.all))
	c.Put("rate", t.rate)
	c.Put("two inside", float64(t.overlaps+counted.overlaps))
	return nil
}

// RoleThrong is the child whose goroutines want one name. It says "ready" when it has had
// it, counts from "go" to "stop", and says how often it had it and how often two had it.
const RoleThrong = "throng"

// thronging is what it is told.
type thronging struct {
	Contender string
	Addrs     []string
	TTL       time.Duration
	HandOver  time.Duration
	Lock      string
	// Goroutines is how many want the name.
	Goroutines int
}

func throng(find func(string) (contender.Contender, error)) child.Role {
	return func(ctx context.Context, args []byte, heard <-chan string, say func(string)) error {
		var t thronging
		if err := json.Unmarshal(args, &t); err != nil {
			return err
		}
		client, err := openNamed(ctx, find, t.Contender, contender.Config{Addrs: t.Addrs, TTL: t.TTL, HandOver: t.HandOver})
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var got, inside, double atomic.Int64
		var ready sync.Once
		var wg sync.WaitGroup
		for range t.Goroutines {
			wg.Go(func() {
				for ctx.Err() == nil {
					held, err := client.Acquire(ctx, t.Lock)
					if err == nil {
						if inside.Add(1) > 1 {
							double.Add(1)
						}
						got.Add(1)
						inside.Add(-1)
						ready.Do(func() { say("ready") })
						err = held.Release(context.WithoutCancel(ctx))
					}
					if err != nil {
						cancel(err)
					}
				}
			})
		}
		defer wg.Wait()
		defer cancel(nil)
		var before int64
		for {
			select {
			case line := <-heard:
				if line != "go" {
					say(fmt.Sprint(got.Load()-before, " ", double.Load()))
					return nil
				}
				before = got.Load()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

func doProcesses(ctx context.Context, c *Cell) error {
	all := make([]*child.Process, c.Case.N)
	defer func() {
		var wg sync.WaitGroup
		for _, p := range all {
			if p != nil {
				wg.Go(func() { _ = p.Close() })
			}
		}
		wg.Wait()
	}()
	told := thronging{
		Contender: c.Contender.Name, Addrs: c.Site.Addrs, TTL: c.TTL(), HandOver: c.Case.HandOver,
		Lock: c.LockName(), Goroutines: c.Case.Goroutines,
	}
	for i := range all {
		var err error
		if all[i], err = child.Start(RoleThrong, told); err != nil {
			return err
		}
	}
	for _, p := range all {
		if line, err := p.Hear(ctx); err != nil || line != "ready" {
			return fmt.Errorf("a process said %q: %w", line, err)
		}
	}
	tell := func(line string) error {
		var errs []error
		for _, p := range all {
			errs = append(errs, p.Say(line))
		}
		return errors.Join(errs...)
	}
	window := c.Depth.window(pick(c.Depth, 2*time.Second, 2*time.Second, 4*time.Second))
	start := time.Now()
	if err := errors.Join(tell("go"), pause(ctx, window)); err != nil {
		return err
	}
	took := time.Since(start)
	if err := tell("stop"); err != nil {
		return err
	}
	counts := make([]int64, len(all))
	var sum, double int64
	for i, p := range all {
		line, err := p.Hear(ctx)
		if err != nil {
			return err
		}
		var twice int64
		if _, err := fmt.Sscan(line, &counts[i], &twice); err != nil {
			return fmt.Errorf("a process said %q: %w", line, err)
		}
		sum, double = sum+counts[i], double+twice
	}
	_, _, ratio := measure.Shares(counts)
	c.Put("rate", float64(sum)/took.Seconds())
	c.Put("largest/smallest", ratio)
	c.Put("two inside", float64(double))
	return nil
}
