package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/store"
)

const (
	busy      = "busy"
	unchecked = "unchecked"
	checked   = "checked"
)

const (
	shopItems     = 10
	shopProcesses = 3
	shopBuyers    = 8 // in each process
)

func shop() Experiment {
	return Experiment{
		Name:     "shop",
		Title:    "The shop",
		Question: "Does the lock keep a shop from selling what it does not have, and what does that cost?",
		Method: fmt.Sprintf("Ten items, %d processes of %d buyers each, the stock in a real database. A buyer takes the lock of an item, reads its stock, thinks for a millisecond, writes one less, and gives the lock back; until all is sold. ", shopProcesses, shopBuyers) +
			"Where a holder is paused, one process is stopped (SIGSTOP) between reading and writing, for longer than its TTL, and then writes what it meant to. " +
			"With the token check, a buyer first notes its token in the item's row, and a write under a smaller token than that of the row is refused. " +
			"The paused process does not look at its lock's context before it writes, as a careful program would, so that the token alone is tried.",
		Metrics: []Metric{
			{Name: "sales", Unit: "/s", Better: 1, Meaning: "until all was sold"},
			{Name: "oversold", Better: -1, Meaning: "pieces sold that were not there"},
			{Name: "refused", Meaning: "writes refused by the token check"},
			{Name: "errors", Better: -1, Meaning: "purchases that failed because locking did, and were tried again"},
			{Name: "told", Unit: "%", Better: 1, Meaning: "of the paused holders, how many found their lock's context ended at the first look, before they wrote; empty where a lock cannot tell"},
		},
		Cases: func(d Depth) []Case {
			return []Case{
				{Name: "no faults", How: busy, N: pick(d, 20, 30, 100)},
				{Name: "a holder paused beyond its TTL", How: unchecked, N: 20, TTL: 2 * time.Second},
				{Name: "a holder paused beyond its TTL, tokens checked", How: checked, N: 20, TTL: 2 * time.Second},
			}
		},
		Repeat: func(Depth) int { return 1 },
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if c.Family == "no-lock" {
				return k.How == busy
			}
			if !distributed(d, c, k) || d != Full && c.Setup.Nodes == 3 {
				return false
			}
			return k.How != checked || c.Traits.Fenced
		},
		Together: func(_ Depth, k Case) bool { return k.How != busy },
		Do: func(ctx context.Context, c *Cell) error {
			within, cancel := context.WithTimeout(ctx, pick(c.Depth, time.Minute, 15*time.Second, time.Minute))
			defer cancel()
			err := doShop(within, c)
			if within.Err() != nil && ctx.Err() == nil {
				err = fmt.Errorf("buyers were stuck: not all was sold in time: %w", err)
			}
			return err
		},
	}
}

// RoleBuy is the child with the buyers of one process.
const RoleBuy = "buy"

func doShop(ctx context.Context, c *Cell) error {
	dir, err := os.MkdirTemp("", "locker-shop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := c.telling()
	b.Shop, b.Check = filepath.Join(dir, "shop.sqlite"), c.Case.How == checked
	db, err := store.Open(b.Shop)
	if err != nil {
		return err
	}
	defer db.Close()
	version, err := db.Version(ctx)
	if err != nil {
		return err
	}
	c.run.setVersion("shop", version)
	if err := db.Create(ctx, shopItems, c.Case.N); err != nil {
		return err
	}
	told := slices.Repeat([]telling{b}, shopProcesses)
	told[0].Stall = c.Case.How != busy
	staff, err := child.StartGroup(ctx, RoleBuy, told)
	if err != nil {
		return err
	}
	defer staff.Close()
	start, late := time.Now(), staff
	if told[0].Stall {
		if err := pauseHolder(ctx, c, db, staff); err != nil {
			return err
		}
		late = staff[:1] // the others have been at it
	}
	if err := late.Say("go"); err != nil {
		return err
	}
	var refused, failed int64
	for _, p := range staff {
		line, err := p.Hear(ctx)
		if err != nil {
			return err
		}
		var r, f int64
		if _, err := fmt.Sscanf(line, "done %d %d", &r, &f); err != nil {
			return fmt.Errorf("a buyer said %q", line)
		}
		refused, failed = refused+r, failed+f
	}
	took := time.Since(start)
	sales, err := db.Sales(ctx)
	if err != nil {
		return err
	}
	if c.Case.How == busy {
		c.Put("sales", float64(sales)/took.Seconds())
		c.PutCount("errors", failed)
	}
	c.PutCount("oversold", int64(sales-shopItems*c.Case.N))
	if b.Check {
		c.PutCount("refused", refused)
	}
	return nil
}

// pauseHolder stops the first process, which has the lock of an item and has read its
// stock, lets the others buy until its time is over and that item is theirs, and has it
// write.
func pauseHolder(ctx context.Context, c *Cell, db *store.Store, staff child.Group) error {
	holder := staff[0]
	if err := errors.Join(holder.Pause(), staff[1:].Say("go")); err != nil {
		return err
	}
	for left := c.Case.N; left == c.Case.N; {
		err := contender.Pause(ctx, 20*time.Millisecond)
		if err == nil {
			left, err = db.Stock(ctx, 0)
		}
		if err != nil {
			return fmt.Errorf("nobody could buy what the paused holder had locked: %w", err)
		}
	}
	if err := errors.Join(holder.Resume(), holder.Say("write")); err != nil {
		return err
	}
	line, err := holder.Hear(ctx)
	if err != nil {
		return err
	}
	switch line {
	case "told yes":
		c.Put("told", 100)
	case "told no":
		c.Put("told", 0)
	case "untold":
	default:
		return fmt.Errorf("the paused buyer said %q", line)
	}
	return nil
}
