package locker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Promise 15: also where the driver is asked on the caller's goroutine, waiting
// or not.
func TestClose(t *testing.T) {
	for _, prompt := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			clock := TimeClock{}
			ok := grant(clock)
			s := &script{traits: driver.Traits{Prompt: prompt}}
			s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				if c.Name != "x" {
					<-ctx.Done()
					return driver.Grant{}, ctx.Err()
				}
				return ok(ctx, c)
			}
			l := open(t, s)
			lock := acquire(t, l, "x")
			errs := make(chan error)
			for i, call := range []func(context.Context, string, ...AcquireOption) (*Lock, error){l.Acquire, l.Acquire, l.TryAcquire} {
				go func() {
					_, err := call(context.Background(), []string{"no answer", "no answer", "none either"}[i])
					errs <- err
				}()
			}
			synctest.Wait()
			go closeAll(t, l)
			for range 3 {
				if err := <-errs; !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
			synctest.Wait()
			if cause := context.Cause(lock.Context()); !errors.Is(cause, ErrReleased) || !errors.Is(cause, ErrClosed) {
				t.Error(cause)
			}
			if s.count("release x") != 1 || s.count("close") != 1 {
				t.Errorf("calls: %v", s.calls)
			}
			if err := lock.Release(context.Background()); err != nil {
				t.Error("Release after Close:", err)
			}
			if _, err := l.Acquire(context.Background(), "x"); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			if _, err := l.TryAcquire(context.Background(), "x"); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			closeAll(t, l)
		})
	}
}

// Close returns by its context also when the server does not answer, and when the
// client library does not come back.
func TestCloseWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			release: func(ctx context.Context, _ *driver.Claim) error { <-ctx.Done(); return ctx.Err() },
			abandon: func(context.Context, *driver.Claim) error { return errBroken },
			close:   func(context.Context) error { time.Sleep(time.Minute); return nil },
		}
		l := open(t, s)
		acquireMany(t, l, 1000)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		err := l.Close(ctx)
		if took := time.Since(begin); took > time.Second+100*time.Millisecond {
			t.Errorf("closed after %v", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if text := fmt.Sprint(err); len(text) > 1000 || !strings.Contains(text, "1000 not released") {
			t.Errorf("%d bytes: %.1000s", len(text), text)
		}
		time.Sleep(time.Minute) // the driver comes back
	})
}

// Without a deadline it does not wait for a server that does not come back for longer than a TTL.
func TestCloseWithoutServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			release: func(ctx context.Context, _ *driver.Claim) error { <-ctx.Done(); return ctx.Err() },
			abandon: func(context.Context, *driver.Claim) error { return errBroken },
		}
		l := open(t, s, WithTTL(20*time.Second))
		acquire(t, l, "x")
		begin := time.Now()
		err := l.Close(context.Background())
		if took := time.Since(begin); took > 25*time.Second+grace || !errors.Is(err, errUnconfirmed) || !errors.Is(err, errUnfinished) {
			t.Errorf("closed after %v: %v", took, err)
		}
	})
}

// Close ends by itself also where the driver ignores its contexts, however many locks are held.
func TestCloseIsBoundedByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		s := &script{
			release: func(context.Context, *driver.Claim) error { <-answer; return nil },
			close:   func(context.Context) error { <-answer; return nil },
		}
		l := open(t, s, WithTTL(20*time.Second))
		for i := range 100 {
			acquire(t, l, strconv.Itoa(i))
		}
		begin := time.Now()
		err := l.Close(context.Background())
		if took := time.Since(begin); took > 30*time.Second+2*grace || !errors.Is(err, errUnfinished) {
			t.Errorf("closed after %v: %v", took, err)
		}
		close(answer)
	})
}

// Close goes on as long as the server answers, however many locks there are.
func TestCloseOfManyLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{silent: true, release: func(context.Context, *driver.Claim) error { time.Sleep(time.Second); return nil }}
		l := open(t, s, WithTTL(5*time.Second))
		for i := range 1000 {
			acquire(t, l, strconv.Itoa(i), WithLease(time.Hour))
		}
		begin := time.Now()
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("closed after %v: %v", time.Since(begin), err)
		}
	})
}

// Promise 15: a lock granted while Close begins is released too, whoever of the
// two comes first.
func TestCloseDuringAcquire(t *testing.T) {
	for range 500 {
		var granted, freed atomic.Int64
		free := func(context.Context, *driver.Claim) error { freed.Add(1); return nil }
		s := &script{silent: true, release: free, abandon: free}
		ok := grant(SystemClock())
		s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			granted.Add(1)
			return ok(ctx, c)
		}
		l := open(t, s, WithClock(SystemClock()))
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if _, err := l.TryAcquire(context.Background(), "x"); err != nil {
					return
				}
			}
		}()
		for granted.Load() == 0 {
			runtime.Gosched()
		}
		closeAll(t, l)
		<-done
		if granted.Load() != freed.Load() {
			t.Fatalf("%d granted, %d freed", granted.Load(), freed.Load())
		}
	}
}

// Release of a lock that Close has released says how that went.
func TestReleaseAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{release: func(context.Context, *driver.Claim) error { return errBroken }}
		l := open(t, s, WithTTL(time.Second))
		lock := acquire(t, l, "x")
		if err := l.Close(context.Background()); !errors.Is(err, errBroken) {
			t.Errorf("Close: %v", err)
		}
		if err := lock.Release(context.Background()); !errors.Is(err, errBroken) {
			t.Errorf("Release: %v", err)
		}
	})
}

// checkpoint is a context whose Err waits once to be let on.
type checkpoint struct {
	context.Context
	reached, on chan struct{}
	once        sync.Once
}

func (c *checkpoint) Err() error {
	c.once.Do(func() {
		close(c.reached)
		<-c.on
	})
	return c.Context.Err()
}

// Promise 15: a release that has begun, and has not come to the server yet, is under way: the
// driver is not closed before it.
func TestCloseWaitsForRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{traits: driver.Traits{Prompt: true}}
		l := open(t, s)
		lock := acquire(t, l, "x")
		ctx := &checkpoint{Context: context.Background(), reached: make(chan struct{}), on: make(chan struct{})}
		released := make(chan error)
		go func() { released <- lock.Release(ctx) }()
		<-ctx.reached
		closed := make(chan bool)
		go func() {
			closeAll(t, l)
			close(closed)
		}()
		synctest.Wait()
		if s.count("close") > 0 {
			t.Error("the driver was closed before the release")
		}
		close(ctx.on)
		if err := <-released; err != nil {
			t.Error(err)
		}
		<-closed
		if n := len(s.calls); n < 2 || s.calls[n-2] != "release x" || s.calls[n-1] != "close" {
			t.Errorf("calls: %v", s.calls)
		}
	})
}

// Close calls what WithOnClose names after the driver, also if that does not return by ctx, and tells of
// its error.
func TestOnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, closed := errors.New("away"), make(chan struct{})
		s := &script{close: func(ctx context.Context) error { <-ctx.Done(); return nil }}
		l := open(t, s, WithOnClose(func() error { return away }), WithOnClose(func() error { close(closed); return nil }))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		_ = l.Close(ctx)
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v", took)
		}
		<-closed
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := open(t, &script{}, WithOnClose(func() error { return away })).Close(context.Background()); !errors.Is(err, away) {
			t.Error(err)
		}
	})
}

// The error of Close does not say that the caller's context has ended if it has not.
func TestCloseWithContextThatGoesOn(t *testing.T) {
	for how, late := range map[string]time.Duration{"obeys": 0, "comes late": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t, &script{close: func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(late)
				return errors.Join(ctx.Err(), errBroken)
			}})
			err := l.Close(context.Background())
			if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errBroken) != (late == 0) || errors.Is(err, errOpen) != (late > 0) {
				t.Errorf("%s: %v", how, err)
			}
			time.Sleep(late)
		})
	}
}

// Close says that its context has ended whatever it was held up by.
func TestCloseSaysThatContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, &script{close: func(ctx context.Context) error { <-ctx.Done(); return errBroken }})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errBroken) {
			t.Error(err)
		}
	})
}
