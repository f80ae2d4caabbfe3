package experiment

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/site"
)

func doLeaderDies(ctx context.Context, c *Cell) error {
	s, err := site.Start(ctx, c.Contender.Setup, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	c.Site = s
	clients, err := c.OpenN(ctx, 3)
	if err != nil {
		return err
	}
	kill, err := leader(ctx, s)
	if err != nil {
		return err
	}
	// Everybody works when the leader dies.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		died  = make(chan struct{})
		ready sync.WaitGroup
		wg    sync.WaitGroup
		mu    sync.Mutex
		first []time.Time
	)
	for _, client := range clients {
		name := c.LockName()
		ready.Add(1)
		wg.Go(func() {
			once := sync.OnceFunc(ready.Done)
			for ctx.Err() == nil {
				after := isClosed(died)
				within, done := context.WithTimeout(ctx, 20*time.Second)
				held, err := client.Acquire(within, name)
				if err == nil {
					got := time.Now()
					err = held.Release(within)
					once()
					if after {
						mu.Lock()
						first = append(first, got)
						mu.Unlock()
						done()
						return
					}
				}
				done()
				if err != nil && pause(ctx, 10*time.Millisecond) != nil {
					return
				}
			}
		})
	}
	ready.Wait()
	if err := pause(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	start := time.Now()
	if err := kill(); err != nil {
		return err
	}
	close(died)
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-time.After(30 * time.Second):
		cancel()
		<-finished
	}
	mu.Lock()
	defer mu.Unlock()
	if len(first) == 0 {
		return fmt.Errorf("nobody could acquire for 30 s: %s", strings.TrimSpace(s.Setup.String()))
	}
	least, most := first[0], first[0]
	for _, t := range first {
		if t.Before(least) {
			least = t
		}
		if t.After(most) {
			most = t
		}
	}
	c.Put("nobody", millis(least.Sub(start)))
	if len(first) == len(clients) {
		c.Put("slowest client", millis(most.Sub(start)))
	}
	return nil
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

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
