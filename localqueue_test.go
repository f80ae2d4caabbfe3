package locker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// meddler is a context that has ended, and does something when it is asked why.
type meddler struct {
	context.Context
	meddle func()
}

func (m *meddler) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (m *meddler) Err() error {
	if m.meddle != nil {
		m.meddle()
		m.meddle = nil
	}
	return context.Canceled
}

// Promise 9: a turn that comes at the very moment at which the one in line gives
// up goes to the next.
func TestTurnIsPassedOn(t *testing.T) {
	c := open(t, &script{}).(*core)
	defer closeAll(t, c)
	a := acquisition{weight: driver.All, limit: driver.All}
	if _, err := c.join(context.Background(), "x", a); err != nil {
		t.Fatal(err)
	}
	ctx := &meddler{Context: context.Background(), meddle: func() { c.leave("x", a, nil) }}
	if _, err := c.join(ctx, "x", a); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(c.queues) != 0 {
		t.Error("nobody has the turn, and nobody will get it")
	}
}

// Promise 9: the goroutines of one Locker queue here, in order, and one of them
// at a time waits at the server, also while another holds the lock.
func TestOneWaiterAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := TimeClock{}
		free := make(chan struct{}, 1)
		free <- struct{}{}
		var waiting, most, token atomic.Int64
		s := &script{
			acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				most.Store(max(most.Load(), waiting.Add(1)))
				defer waiting.Add(-1)
				select {
				case <-free:
				case <-ctx.Done():
					return driver.Grant{}, ctx.Err()
				}
				return driver.Grant{Token: token.Add(1), Until: clock.Now().Add(c.TTL)}, nil
			},
			release: func(context.Context, *driver.Claim) error { free <- struct{}{}; return nil },
		}
		l := open(t, s)
		first := acquire(t, l, "x")
		var order []int
		done := make(chan struct{})
		for i := range 10 {
			go func() {
				lock, err := l.Acquire(context.Background(), "x")
				if err != nil {
					t.Error(err)
				}
				order = append(order, i)
				if err := lock.Release(context.Background()); err != nil {
					t.Error(err)
				}
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		if waiting.Load() != 1 {
			t.Errorf("%d wait at the server while the lock is held, want 1", waiting.Load())
		}
		// A goroutine that gives up in the line does not disturb it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := l.Acquire(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := first.Release(context.Background()); err != nil {
			t.Error(err)
		}
		for range 10 {
			<-done
		}
		for i, n := range order {
			if i != n {
				t.Fatalf("order of grants: %v", order)
			}
		}
		if most.Load() != 1 {
			t.Errorf("up to %d waited at the server", most.Load())
		}
		closeAll(t, l)
	})
}
