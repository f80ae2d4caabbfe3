package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/contender"
)

const cleanEnd = "clean end"

func death() Experiment {
	return Experiment{
		Name:     "death",
		Title:    "Death",
		Question: "How long is the lock stuck when its holder dies?",
		Method: "The holder is a process of its own, which is killed with SIGKILL while another client waits; with a clean end it closes its client, still holding. " +
			"All contenders are measured at the same time, since all they do is wait. Those that do not renew had the lock for 0.7 s of its TTL when they were killed.",
		Metrics: []Metric{
			{Name: "next holder", Unit: "ms", Better: -1, Meaning: "from the end of the holder to the next one having the lock"},
			{Name: "of the TTL", Better: -1, Minor: true, Meaning: "the same, divided by the TTL"},
		},
		Cases: func(d Depth) []Case {
			killed := func(ttl time.Duration) Case { return Case{Name: fmt.Sprintf("killed, TTL %v", ttl), TTL: ttl} }
			clean := func(ttl time.Duration) Case {
				return Case{Name: fmt.Sprintf("clean end, TTL %v", ttl), TTL: ttl, How: cleanEnd}
			}
			if d != Full {
				return []Case{killed(2 * time.Second), clean(2 * time.Second)}
			}
			return []Case{killed(2 * time.Second), killed(5 * time.Second), killed(15 * time.Second), clean(5 * time.Second)}
		},
		Repeat:   func(d Depth) int { return pick(d, 1, 1, 2) },
		Fits:     lessReplicated,
		Together: func(Depth, Case) bool { return true },
		Do:       doDeath,
	}
}

// RoleHold is the child that takes a lock, says "ready", and closes its client when it is
// told to or its parent ends.
const RoleHold = "hold"

func hold(ctx context.Context, client contender.Client, told telling, parent child.Parent) error {
	if _, err := client.Acquire(ctx, told.Lock); err != nil {
		return err
	}
	parent.Say("ready")
	<-parent.Heard
	return nil
}

// errBefore is returned when a lock was over before its holder was.
var errBefore = errors.New("the next holder had the lock before the first one ended")

// doDeath tries three times: on a machine that is late a lock that is not renewed may end before its holder is killed.
func doDeath(ctx context.Context, c *Cell) (err error) {
	for range 3 {
		if err = dies(ctx, c); !errors.Is(err, errBefore) {
			break
		}
	}
	return err
}

func dies(ctx context.Context, c *Cell) error {
	ctx, cancel := context.WithTimeout(ctx, 3*c.TTL()+30*time.Second)
	defer cancel()
	told := c.telling()
	holder, err := child.StartGroup(ctx, RoleHold, []telling{told})
	if err != nil {
		return err
	}
	defer holder.Close()
	heldSince := time.Now()
	client, err := c.Open(ctx)
	if err != nil {
		return err
	}
	q := newQueue(ctx, 1)
	defer q.leave()
	q.join(client, told.Lock, 0)
	if err := contender.Pause(ctx, time.Until(heldSince.Add(700*time.Millisecond))); err != nil {
		return err
	}

	start := time.Now()
	if c.Case.How == cleanEnd {
		err = holder.Say("close")
	} else {
		holder[0].Kill()
	}
	if err != nil {
		return err
	}
	t, err := q.next(ctx)
	if err != nil {
		return err
	}
	took := t.at.Sub(start)
	if took < 0 {
		return fmt.Errorf("%w: %v", errBefore, -took)
	}
	c.Put("next holder", millis(took))
	c.Put("of the TTL", took.Seconds()/c.TTL().Seconds())
	return t.release(ctx)
}
