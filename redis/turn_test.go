package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// reading is a driver whose waiters are gauged, and another that takes turns with it. The
// goroutine of its line rests for as long as it is not woken.
type reading struct {
	*gauge
	r    *servers.Redis
	b, o *backend
	name string
}

func newReading(t *testing.T) *reading {
	t.Helper()
	r := servers.SharedRedis(t)
	return readingAs(t, r, options(r.Addr()))
}

func readingAs(t *testing.T, r *servers.Redis, o *goredis.Options) *reading {
	t.Helper()
	g := &gauge{}
	o.Dialer = g.dial
	b := opened(t, closing(t, goredis.NewClient(o)))
	b.listener.resting = time.Hour
	return &reading{g, r, b, opened(t, connect(t, r.Addr())), freshName(t)}
}

// leads waits for a waiter to read itself, for as long as it would. before is how often that
// has been so.
func (r *reading) leads(before int32) bool {
	for end := time.Now().Add(2 * leading); r.led.Load() == before; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// waits has the driver wait for the name, and returns where the error will be.
func waits(ctx context.Context, b *backend, c *driver.Claim) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, c)
		done <- err
	}()
	return done
}

func gives(t *testing.T, b *backend, c *driver.Claim) {
	t.Helper()
	if err := b.Release(within(t, slack), c); err != nil {
		t.Fatal(err)
	}
}

func gets(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * slack):
		t.Fatal("not granted")
	}
}

// whileReading holds the name, has b wait for it, and does something as soon as b's waiter
// reads itself. It repeats that until it was so: a waiter reads for a moment only.
func (r *reading) whileReading(t *testing.T, do func(held, waits *driver.Claim, done <-chan error) (was bool)) {
	t.Helper()
	eventually.Is(t, "a waiter that reads", func() bool {
		held, next := claim(r.name, time.Minute, true), claim(r.name, time.Minute, true)
		gets(t, waits(within(t, slack), r.o, held))
		before := r.led.Load()
		done := waits(within(t, 20*time.Second), r.b, next)
		if !r.leads(before) {
			gives(t, r.o, held) // the first is told by the goroutine
			gets(t, done)
			gives(t, r.b, next)
			return false
		}
		return do(held, next, done)
	})
}

// Who waits alone soon after somebody was told something reads the news itself. The
// goroutine of the line rests meanwhile, and goes on when nobody reads any more.
func TestWaiterReads(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.b.listener.resting = resting
	r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
		gives(t, r.o, held)
		gets(t, done)
		ln := r.line()
		r.b.listener.mu.Lock()
		itself := ln.turn == ofNobody && ln.led
		r.b.listener.mu.Unlock()
		gives(t, r.b, next)
		return itself
	})
	r.goroutineReads(t)
}

// says has the server say something on the channel.
func (r *reading) says(t *testing.T, text string) {
	t.Helper()
	if n, err := connect(t, r.r.Addr()).Publish(context.Background(), r.b.layout.of(r.name).channel, text).Result(); n != 1 {
		t.Fatalf("%d heard it, %v", n, err)
	}
}

func (r *reading) goroutineReads(t *testing.T) {
	t.Helper()
	eventually.Is(t, "the goroutine to read", func() bool {
		ln := r.line()
		r.b.listener.mu.Lock()
		defer r.b.listener.mu.Unlock()
		return ln.turn == ofReader
	})
}

func (r *reading) line() *line {
	r.b.listener.mu.Lock()
	defer r.b.listener.mu.Unlock()
	return r.b.listener.lines[""]
}

// A waiter reads for a moment only: then the goroutine does, and it notices that its context
// has ended.
func TestWaiterReadsForAMoment(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
		r.goroutineReads(t)
		r.says(t, "")
		gives(t, r.o, held)
		gets(t, done)
		gives(t, r.b, next)
		return true
	})
	r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
		ctx, cancel := context.WithCancel(context.Background())
		other := claim(freshName(t), time.Minute, true)
		last := claim(other.Name, time.Minute, true)
		gives(t, r.o, held)
		gets(t, done)
		gives(t, r.b, next)
		gets(t, waits(ctx, r.o, other))
		before := r.led.Load()
		done = waits(ctx, r.b, last)
		read := r.leads(before)
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		case <-time.After(slack):
			t.Fatal("it does not notice that its context has ended")
		}
		if err := r.b.Abandon(within(t, slack), last); err != nil {
			t.Fatal(err)
		}
		gives(t, r.o, other)
		return read
	})
}

// One that reads is told what a release in its own Locker brings, and does not read on
// until its moment is over.
func TestWaiterReadsAndIsToldAside(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	eventually.Is(t, "a waiter that reads and is told aside", func() bool {
		r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
			gives(t, r.o, held)
			gets(t, done)
			gives(t, r.b, next)
			return true
		})
		held, next := claim(r.name, time.Minute, false), claim(r.name, time.Minute, true)
		gets(t, waits(within(t, slack), r.b, held)) // without waiting
		stops, before := r.stops.Load(), r.led.Load()
		done := waits(within(t, slack), r.b, next)
		read := r.leads(before)
		gives(t, r.b, held)
		gets(t, done)
		gives(t, r.b, next)
		return read && r.stops.Load() > stops
	})
}

// Those who wait while another reads are told what is for them by that one, and when that one
// has its name by the goroutine.
func TestOthersWaitWhileOneReads(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the one that reads", "the other"} {
		t.Run("first "+first, func(t *testing.T) {
			t.Parallel()
			r := newReading(t)
			taken, other := claim(freshName(t), time.Minute, true), claim("", time.Minute, true)
			other.Name = taken.Name
			gets(t, waits(within(t, slack), r.o, taken))
			r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
				otherDone := waits(within(t, 20*time.Second), r.b, other)
				queued(t, connect(t, r.r.Addr()), other.Name, 1)
				if first == "the other" {
					gives(t, r.o, taken)
					gets(t, otherDone)
				}
				gives(t, r.o, held)
				gets(t, done)
				if first != "the other" {
					gives(t, r.o, taken)
					gets(t, otherDone)
				}
				gives(t, r.b, next)
				gives(t, r.b, other)
				return true
			})
		})
	}
}

// A connection that breaks while a waiter reads from it is replaced, and the waiter has the
// name when it is free.
func TestLineBreaksWhileOneReads(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
		ln := r.line()
		r.mu.Lock()
		_ = r.last.Close()
		r.mu.Unlock()
		eventually.Is(t, "another line", func() bool { return r.line() != ln && r.b.listener.listens(r.b.layout.of(r.name).channel) })
		gives(t, r.o, held)
		gets(t, done)
		gives(t, r.b, next)
		return true
	})
}

// What the server complains of while a waiter reads is not lost.
func TestErrorWhileOneReads(t *testing.T) {
	t.Parallel()
	server := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, server.Addr())
	r := readingAs(t, server, connectAs(t, admin, server.Addr(), "listener", "resetchannels", "&"+DefaultPrefix+":*").Options())
	r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
		if err := r.line().pubsub.Subscribe(context.Background(), "forbidden"); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if word(err) != "NOPERM" {
				t.Error(err)
			}
		case <-time.After(slack):
			t.Error("it waits on")
		}
		if err := r.b.Abandon(within(t, slack), next); err != nil {
			t.Fatal(err)
		}
		gives(t, r.o, held)
		return true
	})
}

// News that is out of date is not the end of the wait.
func TestOldNewsWhileOneReads(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
		before := r.led.Load()
		r.says(t, next.ID+"+ 1 1 "+lockKey(r.name))
		read := r.leads(before) // once more
		r.goroutineReads(t)
		r.says(t, "")
		gives(t, r.o, held)
		gets(t, done)
		gives(t, r.b, next)
		return read
	})
}

// Who does not wait alone does not read: who reads does not notice what else there is.
func TestOneOfSeveralDoesNotRead(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	taken := claim(freshName(t), time.Minute, true)
	other := claim(taken.Name, time.Minute, true)
	gets(t, waits(within(t, slack), r.o, other))
	done := waits(within(t, slack), r.b, taken)
	queued(t, connect(t, r.r.Addr()), taken.Name, 1)
	gives(t, r.o, other)
	gets(t, done) // b has one that has waited
	for range 5 {
		held, next := claim(r.name, time.Minute, true), claim(r.name, time.Minute, true)
		gets(t, waits(within(t, slack), r.o, held))
		before := r.led.Load()
		done := waits(within(t, slack), r.b, next)
		queued(t, connect(t, r.r.Addr()), r.name, 1)
		if r.leads(before) {
			t.Error("it reads")
		}
		gives(t, r.o, held)
		gets(t, done)
		gives(t, r.b, next)
	}
	gives(t, r.b, taken)
}

// A Locker that is closed while one of its waiters reads ends that one and leaves no
// goroutine.
func TestClosedWhileOneReads(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	r.whileReading(t, func(held, next *driver.Claim, done <-chan error) bool {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.b.Close(ctx)
		select {
		case err := <-done:
			if err == nil {
				t.Error("granted after all")
			}
		case <-time.After(slack):
			t.Error("it still waits")
		}
		if err := r.b.Close(within(t, slack)); err != nil {
			t.Error(err)
		}
		gives(t, r.o, held)
		return true
	})
}

// A client whose connections cannot be tapped does without.
func TestNoTap(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	type wrapped struct{ *goredis.Client }
	b, o := opened(t, wrapped{connect(t, r.Addr())}), opened(t, connect(t, r.Addr()))
	name := freshName(t)
	for range 5 {
		held, next := claim(name, time.Minute, true), claim(name, time.Minute, true)
		gets(t, waits(within(t, slack), o, held))
		done := waits(within(t, slack), b, next)
		queued(t, connect(t, r.Addr()), name, 1)
		gives(t, o, held)
		gets(t, done)
		b.listener.mu.Lock()
		for _, ln := range b.listener.lines {
			if ln.turn != ofReader || ln.tap.Load() != nil {
				t.Error("its goroutine does not read")
			}
		}
		b.listener.mu.Unlock()
		gives(t, b, next)
	}
}
