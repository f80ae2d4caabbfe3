package experiment

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

func doLeaderDies(ctx context.Context, c *Cell) error {
	if err := c.On(site.Start(ctx, c.Contender.Setup, nil)); err != nil {
		return err
	}
	clients, err := c.OpenN(ctx, 3)
	if err != nil {
		return err
	}
	kill, err := leader(ctx, c.Site)
	if err != nil {
		return err
	}
	// Everybody works when the leader dies.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		died      atomic.Bool
		ready, wg sync.WaitGroup
		first     = make([]time.Time, len(clients)) // who had a lock that was asked for afterwards
	)
	for i, client := range clients {
		name := c.LockName()
		ready.Add(1)
		wg.Go(func() { first[i] = worksUntil(ctx, client, name, &died, sync.OnceFunc(ready.Done)) })
	}
	ready.Wait()
	if err := contender.Pause(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	start := time.Now()
	if err := kill(); err != nil {
		return err
	}
	died.Store(true)
	within(&wg, 30*time.Second)
	cancel()
	wg.Wait()
	first = slices.DeleteFunc(first, time.Time.IsZero)
	if len(first) == 0 {
		return fmt.Errorf("nobody could acquire for 30 s: %s", c.Contender.Setup)
	}
	c.Put("nobody", millis(slices.MinFunc(first, time.Time.Compare).Sub(start)))
	if len(first) == len(clients) {
		c.Put("slowest client", millis(slices.MaxFunc(first, time.Time.Compare).Sub(start)))
	}
	return nil
}

// worksUntil takes a name again and again, and returns when it first had it that was asked for after the leader died; zero if
// ctx ended before. It calls ready each time.
func worksUntil(ctx context.Context, client contender.Client, name string, died *atomic.Bool, ready func()) time.Time {
	for ctx.Err() == nil {
		after := died.Load()
		within, done := context.WithTimeout(ctx, 20*time.Second)
		held, err := client.Acquire(within, name)
		got := time.Now()
		if err == nil {
			err = held.Release(within)
			ready()
			if after {
				done()
				return got
			}
		}
		done()
		if err != nil {
			_ = contender.Pause(ctx, 10*time.Millisecond)
		}
	}
	ready()
	return time.Time{}
}

// leader returns how to kill it.
func leader(ctx context.Context, s *site.Site) (kill func() error, err error) {
	if s.Etcd != nil {
		l, err := s.Etcd.Leader(ctx)
		if err != nil {
			return nil, err
		}
		return l.Kill, nil
	}
	l, err := s.ZooKeeper.Leader(ctx)
	if err != nil {
		return nil, err
	}
	return l.Kill, nil
}
