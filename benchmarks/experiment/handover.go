package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

const inProcesses = "processes of 16 goroutines"

// handOverFor is for how long a process may pass the name on within itself.
const handOverFor = 5 * time.Millisecond

func handOver() Experiment {
	return Experiment{
		Name:     "hand-over",
		Title:    "Hand-over within a process",
		Question: "What is gained if the goroutines of a process pass a name on among themselves for 5 ms, and what do other processes still get?",
		Method: "16 goroutines of one client with WithHandOver(5ms) take one name and give it back at once, as often as they can; " +
			"then the same in 16 processes at once, which are told together when to begin to count and when to end. \"Contended, 16 goroutines of one client\" is the same without the option.",
		Metrics: []Metric{
			{Name: "rate", Unit: "/s", Better: 1, Meaning: "acquisitions a second, of all goroutines together"},
			{Name: "requests", Better: -1, Meaning: "requests at the servers for one acquisition and its release"},
			{Name: "largest/smallest", Better: -1, Meaning: "the largest share of a process, or of a goroutine where there is one process, divided by the smallest"},
			{Name: "two inside", Better: -1, Meaning: "times that somebody got the lock while another goroutine of the same process had it"},
		},
		Cases: func(d Depth) []Case {
			n := d.smaller(16)
			return []Case{
				{Name: "16 " + oneClient, N: 16, How: oneClient, HandOver: handOverFor},
				{Name: fmt.Sprintf("%d %s", n, inProcesses), N: n, Goroutines: 16, How: inProcesses, HandOver: handOverFor},
			}
		},
		Repeat: func(d Depth) int { return pick(d, 1, 1, 6) },
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if !usual(d, c, k) || !c.Traits.HandOver || d != Full && c.Setup.Nodes == 3 {
				return false
			}
			return c.Setup != contender.InProcess || k.How == oneClient
		},
		Do: func(ctx context.Context, c *Cell) error {
			if c.Case.How == inProcesses {
				return doProcesses(ctx, c)
			}
			return c.compete(ctx, contest{warm: untimed, window: 400 * time.Millisecond}, true)
		},
	}
}

// RoleThrong is the child whose goroutines want one name. It says "ready" when it has had
// it, counts from "go" to "stop", and says how often it had it and how often two had it.
const RoleThrong = "throng"

func throng(ctx context.Context, client contender.Client, t telling, parent child.Parent) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var got, inside, double atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	ready := sync.OnceFunc(func() { parent.Say("ready") })
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
					ready()
					err = held.Release(context.WithoutCancel(ctx))
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	var before int64
	for {
		select {
		case line := <-parent.Heard:
			if line != "go" {
				parent.Say(fmt.Sprint(got.Load()-before, " ", double.Load()))
				return nil
			}
			before = got.Load()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func doProcesses(ctx context.Context, c *Cell) error {
	all, err := child.StartGroup(ctx, RoleThrong, slices.Repeat([]telling{c.telling()}, c.Case.N))
	if err != nil {
		return err
	}
	defer all.Close()
	window := c.Depth.window(pick(c.Depth, 2*time.Second, 2*time.Second, 4*time.Second))
	start := time.Now()
	if err := errors.Join(all.Say("go"), contender.Pause(ctx, window)); err != nil {
		return err
	}
	took := time.Since(start)
	if err := all.Say("stop"); err != nil {
		return err
	}
	counts := make([]int64, len(all))
	var double int64
	for i, p := range all {
		line, err := p.Hear(ctx)
		if err != nil {
			return err
		}
		var twice int64
		if _, err := fmt.Sscan(line, &counts[i], &twice); err != nil {
			return fmt.Errorf("a process said %q: %w", line, err)
		}
		double += twice
	}
	_, _, ratio := measure.Shares(counts)
	c.Put("rate", float64(measure.Sum(counts))/took.Seconds())
	c.Put("largest/smallest", ratio)
	c.PutCount("two inside", double)
	return nil
}
