package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// exclusively is a driver whose one name is granted in turn, with as many spare tokens as it
// has left.
type exclusively struct {
	*script
	free  chan struct{}
	token int64
	spare int64
}

func openExclusively(t *testing.T, spare int64, opts ...Option) (Locker, *exclusively) {
	e := &exclusively{script: &script{traits: driver.Traits{Prompt: true, Fenced: true, Shared: true, Permits: true}}, free: make(chan struct{}, 1), spare: spare}
	e.free <- struct{}{}
	e.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
		select {
		case <-e.free:
		case <-ctx.Done():
			return driver.Grant{}, ctx.Err()
		}
		g := driver.Grant{Token: e.token + 1, Spare: min(e.spare, int64(c.Spare)), Until: TimeClock{}.Now().Add(c.TTL)}
		e.token = g.Token + g.Spare
		return g, nil
	}
	e.release = func(context.Context, *driver.Claim) error { e.free <- struct{}{}; return nil }
	return open(t, e.script, opts...), e
}

// queueUp has n goroutines acquire x one after the other and send what they got.
func queueUp(t *testing.T, l Locker, n int, opts ...AcquireOption) chan *Lock {
	t.Helper()
	got := make(chan *Lock, n)
	for range n {
		go func() {
			lock, err := l.Acquire(context.Background(), "x", opts...)
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		synctest.Wait()
	}
	return got
}

// Within the window goroutines pass the name on without a request, in order and with rising
// tokens; after it the next goes to the server, and its token is greater still.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := openExclusively(t, 1000, WithHandOver(time.Second))
		lock := acquire(t, l, "x")
		got := queueUp(t, l, 5)
		last := lock.Token()
		for i := range 3 {
			if err := lock.Release(context.Background()); err != nil {
				t.Fatal(err)
			}
			if lock.Context().Err() == nil {
				t.Error("the lock that was passed on is still held")
			}
			lock = <-got
			if lock.Token() != last+1 || lock.Context().Err() != nil {
				t.Errorf("hand-over %d: token %d after %d, %v", i, lock.Token(), last, lock.Context().Err())
			}
			last = lock.Token()
		}
		if n := e.count("acquire x"); n != 1 {
			t.Errorf("%d requests within the window", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := e.count("acquire x"); n != 2 {
			t.Errorf("%d requests when the window is over: the next has to be at the server", n)
		}
		for range 2 {
			_ = lock.Release(context.Background())
			lock = <-got
			if lock.Token() <= last {
				t.Errorf("token %d after %d", lock.Token(), last)
			}
			last = lock.Token()
		}
		_ = lock.Release(context.Background())
		acquire(t, l, "x") // closed within its window
		closeAll(t, l)
		if len(l.(*core).queues) != 0 {
			t.Error("a queue is left")
		}
	})
}

// What is not passed on: to another kind, owner or lease, without a token, with little time left.
func TestNotHandedOver(t *testing.T) {
	for what, x := range map[string]struct {
		spare       int64
		opts        []Option
		first, then []AcquireOption
		wait        time.Duration
	}{
		"never by default":   {spare: 1000},
		"no token left":      {spare: 0, opts: []Option{WithHandOver(time.Second)}},
		"another kind":       {spare: 1000, opts: []Option{WithHandOver(time.Second)}, then: []AcquireOption{Shared()}},
		"another limit":      {spare: 1000, opts: []Option{WithHandOver(time.Second)}, first: []AcquireOption{Permits(1, 2)}, then: []AcquireOption{Permits(1, 3)}},
		"another owner":      {spare: 1000, opts: []Option{WithHandOver(time.Second)}, then: []AcquireOption{As("me")}},
		"to a lease":         {spare: 1000, opts: []Option{WithHandOver(time.Second)}, then: []AcquireOption{WithLease(time.Second)}},
		"of a lease":         {spare: 1000, opts: []Option{WithHandOver(time.Second)}, first: []AcquireOption{WithLease(time.Second)}},
		"half of the time":   {spare: 1000, opts: []Option{WithHandOver(time.Minute), WithTTL(6 * time.Second)}, wait: 4 * time.Second},
		"the window is over": {spare: 1000, opts: []Option{WithHandOver(time.Second)}, wait: time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, e := openExclusively(t, x.spare, x.opts...)
				lock := acquire(t, l, "x", x.first...)
				got := queueUp(t, l, 1, x.then...)
				time.Sleep(x.wait)
				_ = lock.Release(context.Background())
				next := <-got
				if n := e.count("acquire x"); n != 2 || next.Token() <= lock.Token() {
					t.Errorf("%d requests, tokens %d and %d", n, lock.Token(), next.Token())
				}
				_ = next.Release(context.Background())
				closeAll(t, l)
			})
		})
	}
}

// Goroutines that give the same owner pass the name on, too.
func TestHandOverWithOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := openExclusively(t, 1000, WithHandOver(time.Minute))
		lock := acquire(t, l, "x", As("me"))
		got := queueUp(t, l, 1, As("me"))
		_ = lock.Release(context.Background())
		_ = (<-got).Release(context.Background())
		if n := e.count("acquire x"); n != 1 {
			t.Errorf("%d requests", n)
		}
		closeAll(t, l)
	})
}

// When the spare tokens are used up the next goes to the server.
func TestHandOverEndsWithTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := openExclusively(t, 2, WithHandOver(time.Minute))
		lock := acquire(t, l, "x")
		got := queueUp(t, l, 3)
		for want := int64(2); want <= 4; want++ {
			_ = lock.Release(context.Background())
			if lock = <-got; lock.Token() != want {
				t.Errorf("token %d, want %d", lock.Token(), want)
			}
		}
		if n := e.count("acquire x"); n != 2 {
			t.Errorf("%d requests", n)
		}
		_ = lock.Release(context.Background())
		closeAll(t, l)
	})
}

// Promise 9: another process is overtaken for as long as the window and one holding.
func TestHandOverIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window, holding = 100 * time.Millisecond, 10 * time.Millisecond
		l, e := openExclusively(t, 1<<30, WithHandOver(window))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					lock, err := l.Acquire(context.Background(), "x")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(holding)
					_ = lock.Release(context.Background())
				}
			})
		}
		time.Sleep(55 * time.Millisecond)
		begin := time.Now()
		<-e.free // as another process that waits at the server
		if took := time.Since(begin); took > window+holding {
			t.Errorf("the other waited for %v", took)
		}
		e.free <- struct{}{}
		close(stop)
		wg.Wait()
		closeAll(t, l)
	})
}

// Who has the name by a hand-over loses it with the lease.
func TestHandedOverLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := openExclusively(t, 1000, WithHandOver(time.Minute))
		var claim *driver.Claim
		ask := e.acquire
		e.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			claim = c
			return ask(ctx, c)
		}
		lock := acquire(t, l, "x")
		got := queueUp(t, l, 2)
		_ = lock.Release(context.Background())
		second := <-got
		claim.Lost(errBroken)
		if !errors.Is(context.Cause(second.Context()), ErrLost) || !errors.Is(context.Cause(lock.Context()), ErrReleased) {
			t.Errorf("second %v, first %v", context.Cause(second.Context()), context.Cause(lock.Context()))
		}
		if err := second.Release(context.Background()); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		if err := lock.Release(context.Background()); err != nil {
			t.Errorf("the first released in time: %v", err)
		}
		e.free <- struct{}{} // by the cleanup
		begin := time.Now()
		third := <-got
		if took := time.Since(begin); took > 0 {
			t.Errorf("the next waited for the rest of the window, %v", took)
		}
		_ = third.Release(context.Background())
		closeAll(t, l)
	})
}

// Who gives up at the very moment at which the name is handed to it passes it on.
func TestHandedOverTooLate(t *testing.T) {
	l, e := openExclusively(t, 1000, WithHandOver(time.Minute))
	lock := acquire(t, l, "x")
	ctx := &meddler{Context: context.Background(), meddle: func() { _ = lock.Release(context.Background()) }}
	c := l.(*core)
	if _, err := c.join(ctx, "x", acquisition{weight: driver.All, limit: driver.All, owner: c.cfg.Owner}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	<-e.free // it was released
	e.free <- struct{}{}
	closeAll(t, l)
}

// Readers join the shared lock of their process within the window, and the name is free
// when the last has left.
func TestSharedWithinWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := openExclusively(t, 1000, WithHandOver(time.Second))
		first := acquire(t, l, "x", Shared())
		second := acquire(t, l, "x", Shared())
		_ = first.Release(context.Background())
		third := acquire(t, l, "x", Shared())
		if n := e.count("acquire x"); n != 1 || second.Token() <= first.Token() || third.Token() <= second.Token() {
			t.Errorf("%d requests, tokens %d, %d, %d", n, first.Token(), second.Token(), third.Token())
		}
		time.Sleep(time.Second)
		got := queueUp(t, l, 1, Shared()) // has to ask now
		if n := e.count("acquire x"); n != 2 {
			t.Errorf("%d requests", n)
		}
		_ = second.Release(context.Background())
		synctest.Wait()
		if len(got) > 0 || e.count("release x") > 0 {
			t.Error("released before the last has left")
		}
		_ = third.Release(context.Background())
		_ = (<-got).Release(context.Background())
		closeAll(t, l)
	})
}

// Permits that are free are not waited for, whatever is handed over.
func TestHandOverLeavesNoPermitIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{traits: driver.Traits{Permits: true}}
		l := open(t, s, WithHandOver(time.Second))
		begin := time.Now()
		var locks []*Lock
		for range 3 {
			locks = append(locks, acquire(t, l, "x", Permits(1, 3)))
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("three of three permits after %v", took)
		}
		for _, lock := range locks {
			_ = lock.Release(context.Background())
		}
		closeAll(t, l)
	})
}

// A permit is not passed on to a goroutine before those who came before it and wait at the server.
func TestHandOverOfPermitOvertakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{traits: driver.Traits{Permits: true}}
		granted, ok := false, grant(TimeClock{})
		s.acquire = func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			if !granted {
				granted = true
				return ok(ctx, c)
			}
			<-ctx.Done()
			return driver.Grant{}, ctx.Err()
		}
		l := open(t, s, WithHandOver(time.Second))
		lock := acquire(t, l, "x", Permits(1, 2))
		ctx, cancel := context.WithCancel(context.Background())
		for range 3 {
			go func() { _, _ = l.Acquire(ctx, "x", Permits(1, 2)) }()
			synctest.Wait()
		}
		_ = lock.Release(context.Background())
		if n := s.count("release x"); n != 1 {
			t.Errorf("released %d times", n)
		}
		cancel()
		synctest.Wait()
		closeAll(t, l)
	})
}

// What is handed over passes nobody of the same Locker who came before and had to ask the server.
func TestHandOverOvertakesNobody(t *testing.T) {
	for what, opts := range map[string]struct{ before, between []AcquireOption }{
		"an exclusive lock among shared ones": {before: []AcquireOption{Shared()}},
		"a lock of another owner":             {between: []AcquireOption{As("another")}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _ := openExclusively(t, 1000, WithHandOver(time.Second))
				first := acquire(t, l, "x", opts.before...)
				second := queueUp(t, l, 1, opts.between...)
				third := queueUp(t, l, 1, opts.before...)
				_ = first.Release(context.Background())
				synctest.Wait()
				if len(second) != 1 || len(third) != 0 {
					t.Error("it was passed by one that came later")
				}
				for range 2 {
					var lock *Lock
					select {
					case lock = <-second:
					case lock = <-third:
					}
					_ = lock.Release(context.Background())
				}
				closeAll(t, l)
			})
		})
	}
}

// Goroutines that could hold the name together wait at the server side by side; those that
// could not wait at home, one after the other. Nobody passes one who came before.
func TestSideBySideAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan string, 100)
		s := &script{traits: driver.Traits{Shared: true, Permits: true}, acquire: func(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			asked <- fmt.Sprint(c.Weight, "/", c.Limit)
			<-ctx.Done()
			return driver.Grant{}, ctx.Err()
		}}
		l := open(t, s)
		ask := func(opts ...AcquireOption) context.CancelFunc {
			ctx, cancel := context.WithCancel(context.Background())
			go func() { _, _ = l.Acquire(ctx, "x", opts...) }()
			synctest.Wait()
			return cancel
		}
		expect := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if n := len(asked); n != want {
				t.Errorf("%s: %d more at the server, want %d", what, n, want)
			}
			for len(asked) > 0 {
				<-asked
			}
		}
		writer := ask()
		expect("the writer", 1)
		ends := []context.CancelFunc{ask(Shared()), ask(Shared()), ask(Shared())}
		expect("readers behind a writer", 0)
		if _, err := l.TryAcquire(context.Background(), "x", Shared()); !errors.Is(err, ErrNotAcquired) {
			t.Errorf("a try behind those who wait: %v", err)
		}
		expect("the try", 0)
		writer()
		expect("readers", 3)
		ends = append(ends, ask(), ask(Shared()))
		expect("a writer behind readers, and a reader behind it", 0)
		ends[3]()
		expect("the reader when the writer gave up", 1)
		for _, end := range ends {
			end()
		}
		synctest.Wait()
		for len(asked) > 0 {
			<-asked
		}
		one, two, three := ask(Permits(1, 3)), ask(Permits(2, 3)), ask(Permits(1, 3))
		expect("as many permits as there are", 2)
		one()
		expect("the next when the first gave up", 1)
		two()
		three()
		closeAll(t, l)
	})
}
