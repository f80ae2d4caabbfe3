package experiment

import (
	"context"
	"encoding/json"
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
			{Name: "next holder", Unit: "ms", Better: -1, Plot: true, Meaning: "from the end of the holder to the next one having the lock"},
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
		Repeat: func(d Depth) int { return pick(d, 1, 1, 2) },
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			return distributed(d, c, k) && (d == Full || c.Setup.Nodes != 3)
		},
		Together: func(Depth, Case) bool { return true },
		Do:       doDeath,
	}
}

// holding is what a child is told that is to hold a lock.
type holding struct {
	Contender string
	Addrs     []string
	TTL       time.Duration
	Lock      string
}

// RoleHold is the child that takes a lock, says "held", and closes its client when it is
// told "close".
const RoleHold = "hold"

func hold(find func(string) (contender.Contender, error)) child.Role {
	return func(ctx context.Context, args []byte, heard <-chan string, say func(string)) error {
		var h holding
		if err := json.Unmarshal(args, &h); err != nil {
			return err
		}
		client, err := openNamed(ctx, find, h.Contender, contender.Config{Addrs: h.Addrs, TTL: h.TTL})
		if err != nil {
			return err
		}
		held, err := client.Acquire(ctx, h.Lock)
		if err != nil {
			return err
		}
		say(fmt.Sprintf("held %d", held.Token()))
		if <-heard == "close" {
			err := client.Close()
			say("closed")
			return err
		}
		return nil
	}
}

// RegisterRoles makes the children of all experiments known. find is how they come by
// their contender.
func RegisterRoles(find func(string) (contender.Contender, error)) {
	child.Register(RoleHold, hold(find))
	child.Register(RoleBuy, buy(find))
	child.Register(RoleThrong, throng(find))
}

// openNamed opens a client in a child, of the contender of that name.
func openNamed(ctx context.Context, find func(string) (contender.Contender, error), name string, cfg contender.Config) (contender.Client, error) {
	c, err := find(name)
	if err != nil {
		return nil, err
	}
	return c.Open(ctx, cfg)
}

func doDeath(ctx context.Context, c *Cell) error {
	ctx, cancel := context.WithTimeout(ctx, 3*c.TTL()+30*time.Second)
	defer cancel()
	name := c.LockName()
	p, err := child.Start(RoleHold, holding{c.Contender.Name, c.Site.Addrs, c.TTL(), name})
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := p.Hear(ctx); err != nil {
		return err
	}
	heldSince := time.Now()
	client, err := c.Open(ctx)
	if err != nil {
		return err
	}
	waits, q := newQueue(ctx, 1)
	defer q.leave()
	q.join(waits, client, name, 0)
	if err := pause(ctx, time.Until(heldSince.Add(700*time.Millisecond))); err != nil {
		return err
	}

	start := time.Now()
	if c.Case.How == cleanEnd {
		err = p.Say("close")
	} else {
		err = p.Kill()
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
		return fmt.Errorf("the next holder had the lock %v before the first one ended", -took)
	}
	c.Put("next holder", millis(took))
	c.Put("of the TTL", took.Seconds()/c.TTL().Seconds())
	return t.release(ctx)
}
