package experiment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/store"
)

// staff is one process of buyers.
type staff struct {
	telling
	client  contender.Client
	db      *store.Store
	refused atomic.Int64
	failed  atomic.Int64
}

func buy(ctx context.Context, client contender.Client, told telling, parent child.Parent) error {
	s := &staff{telling: told, client: client}
	var err error
	if s.db, err = store.Open(s.Shop); err != nil {
		return err
	}
	defer s.db.Close()
	if s.Stall {
		err = s.stall(ctx, parent)
	} else {
		parent.Say("ready")
	}
	if err == nil {
		err = parent.Await("go")
	}
	if err != nil {
		return err
	}
	return s.work(ctx, parent)
}

func (s *staff) lock(ctx context.Context, item int) (contender.Held, error) {
	return s.client.Acquire(ctx, fmt.Sprintf("%s/%d", s.Lock, item))
}

// read returns the stock, having noted the token if tokens are checked.
func (s *staff) read(ctx context.Context, item int, token int64) (int, error) {
	if s.Check {
		if err := s.db.Seen(ctx, item, token); err != nil {
			return 0, err
		}
	}
	return s.db.Stock(ctx, item)
}

func (s *staff) write(ctx context.Context, item, left int, token int64) error {
	sold, err := s.db.Sell(ctx, item, left, token, s.Check)
	if err == nil && !sold {
		s.refused.Add(1)
	}
	return err
}

// stall is the holder that is stopped between reading and writing.
func (s *staff) stall(ctx context.Context, parent child.Parent) error {
	held, err := s.lock(ctx, 0)
	if err != nil {
		return err
	}
	stock, err := s.read(ctx, 0, held.Token())
	if err != nil {
		return err
	}
	parent.Say("ready")
	if err := parent.Await("write"); err != nil { // heard after having been stopped
		return err
	}
	told := "untold"
	if w, ok := held.(contender.Watched); ok {
		told = "told no"
		if w.Context().Err() != nil {
			told = "told yes"
		}
	}
	if err := s.write(ctx, 0, stock-1, held.Token()); err != nil {
		return err
	}
	_ = held.Release(ctx) // it is not its any more
	parent.Say(told)
	return nil
}

// work buys until there is nothing left.
func (s *staff) work(ctx context.Context, parent child.Parent) error {
	err := spread(shopBuyers, shopBuyers, func(int) error { return s.buyer(ctx) })
	// A process that was stopped may find its client beyond use; the others
	// go on.
	if err != nil && !s.Stall {
		return err
	}
	parent.Say(fmt.Sprintf("done %d %d", s.refused.Load(), s.failed.Load()))
	return nil
}

// A buyer whose lock or purchase fails tries again, but not for ever.
const buyerPatience = 100

func (s *staff) buyer(ctx context.Context) error {
	open := rand.Perm(shopItems)
	for failed := 0; len(open) > 0; {
		i := rand.IntN(len(open))
		left, err := s.one(ctx, open[i])
		if err != nil {
			s.failed.Add(1)
			if failed++; failed == buyerPatience {
				return fmt.Errorf("%d times in a row: %w", failed, err)
			}
			continue
		}
		failed = 0
		if !left {
			open = slices.Delete(open, i, i+1)
		}
	}
	return nil
}

// one buys one piece; left is false if there was none.
func (s *staff) one(ctx context.Context, item int) (left bool, err error) {
	held, err := s.lock(ctx, item)
	if err != nil {
		return false, fmt.Errorf("lock: %w", err)
	}
	// A release that fails after a loss is no reason to stop: the next buyer waits
	// for the lock like any other.
	defer held.Release(ctx)
	stock, err := s.read(ctx, item, held.Token())
	if err != nil || stock <= 0 {
		return false, err
	}
	if err := contender.Pause(ctx, time.Millisecond); err != nil {
		return false, err
	}
	err = s.write(ctx, item, stock-1, held.Token())
	return err == nil, err
}
