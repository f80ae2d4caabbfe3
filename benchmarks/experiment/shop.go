package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
			{Name: "sales", Unit: "/s", Better: 1, Plot: true, Meaning: "until all was sold"},
			{Name: "oversold", Better: -1, Plot: true, Meaning: "pieces sold that were not there"},
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
			within, cancel := context.WithTimeout(ctx, pick(c.Depth, 15*time.Second, 15*time.Second, time.Minute))
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

// buying is what it is told.
type buying struct {
	Contender string
	Addrs     []string
	TTL       time.Duration
	Database  string
	Shop      string
	Locks     string // what the names of the locks begin with
	Check     bool
	Stall     bool // be the holder that is paused
}

func doShop(ctx context.Context, c *Cell) (err error) {
	b := buying{
		Contender: c.Contender.Name, Addrs: c.Site.Addrs, TTL: c.TTL(), Check: c.Case.How == checked,
		Locks: c.LockName(), Shop: fmt.Sprintf("%d_%d", os.Getpid(), names.Add(1)), Database: c.database,
	}
	if b.Database == "" {
		dir, err := os.MkdirTemp("", "locker-shop")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		b.Database = filepath.Join(dir, "shop.sqlite")
	}
	db, err := store.Open(b.Database, b.Shop)
	if err != nil {
		return err
	}
	defer db.Close()
	version, err := db.Version(ctx)
	if err != nil {
		return err
	}
	c.version.Store("shop", version)
	if err := db.Create(ctx, shopItems, c.Case.N); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Drop(context.WithoutCancel(ctx))) }()

	open := time.Now()
	staff, err := hire(ctx, b, c.Case.How != busy)
	defer func() {
		for _, p := range staff {
			_ = p.Close()
		}
	}()
	if err != nil {
		return err
	}
	var refused, failed int
	if c.Case.How == busy {
		open = time.Now()
	} else if err := pauseHolder(ctx, c, db, staff); err != nil {
		return err
	}
	for i, p := range staff {
		if c.Case.How != busy && i > 0 {
			continue // they have been at it
		}
		if err := p.Say("go"); err != nil {
			return err
		}
	}
	for _, p := range staff {
		line, err := p.Hear(ctx)
		if err != nil {
			return err
		}
		var r, f int
		if _, err := fmt.Sscanf(line, "done %d %d", &r, &f); err != nil {
			return fmt.Errorf("a buyer said %q", line)
		}
		refused += r
		if c.Case.How == busy {
			failed += f
		}
	}
	took := time.Since(open)
	sales, err := db.Sales(ctx)
	if err != nil {
		return err
	}
	if c.Case.How == busy {
		c.Put("sales", float64(sales)/took.Seconds())
		c.Put("errors", float64(failed))
	}
	c.Put("oversold", float64(sales-shopItems*c.Case.N))
	if b.Check {
		c.Put("refused", float64(refused))
	}
	return nil
}

// hire starts the processes and waits until they are ready. With stall, the first is the
// holder that is to be paused, and has its lock.
func hire(ctx context.Context, b buying, stall bool) ([]*child.Process, error) {
	var staff []*child.Process
	for i := range shopProcesses {
		b.Stall = stall && i == 0
		p, err := child.Start(RoleBuy, b)
		if err != nil {
			return staff, err
		}
		staff = append(staff, p)
	}
	for _, p := range staff {
		if line, err := p.Hear(ctx); err != nil || line != "ready" {
			return staff, fmt.Errorf("a buyer said %q: %w", line, err)
		}
	}
	return staff, nil
}

// pauseHolder stops the first process, which has the lock of an item and has read its
// stock, lets the others buy until its time is over and that item is theirs, and has it
// write.
func pauseHolder(ctx context.Context, c *Cell, db *store.Store, staff []*child.Process) error {
	if err := staff[0].Pause(); err != nil {
		return err
	}
	for _, p := range staff[1:] {
		if err := p.Say("go"); err != nil {
			return err
		}
	}
	for {
		left, err := db.Stock(ctx, 0)
		if err != nil {
			return err
		}
		if left < c.Case.N {
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("nobody could buy what the paused holder had locked: %w", err)
		}
	}
	if err := staff[0].Resume(); err != nil {
		return err
	}
	if err := staff[0].Say("write"); err != nil {
		return err
	}
	line, err := staff[0].Hear(ctx)
	if err != nil {
		return err
	}
	if what, ok := strings.CutPrefix(line, "told "); ok {
		c.Put("told", map[string]float64{"yes": 100}[what])
		return nil
	}
	if line != "untold" {
		return fmt.Errorf("the paused buyer said %q", line)
	}
	return nil
}
