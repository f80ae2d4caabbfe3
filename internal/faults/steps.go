package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/faults/fence"
	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/lateness"
)

// The steps of which rows are made.

// Within returns a ctx that ends after d.
func (x *Exam) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(x.Ctx, d)
	x.Cleanup(cancel)
	return ctx
}

// Acquired has p take the lock, or as much of it as share says, which has to succeed within d.
func (x *Exam) Acquired(p *Player, name string, d time.Duration, share ...history.Share) *Holding {
	x.Helper()
	began := time.Now()
	h, err := p.Acquire(x.Within(d), name, share...)
	if err != nil {
		x.fatalUnlessLate(began, "%s did not get the lock within %v: %v", p.Name, d, err)
	}
	x.grants(name, h)
	return h
}

// two are A, who holds a name, and B, who waits for it.
type two struct {
	name string
	a, b *Player
	held *Holding   // A's
	wait <-chan Got // B's
}

// pair opens the users A and B; it returns them with a new name.
func (x *Exam) pair() (name string, a, b *Player) {
	x.Helper()
	a, _ = x.Player("A")
	b, _ = x.Player("B")
	return x.Lock(), a, b
}

// holderAndWaiter has A hold a name and B wait for it, for d at the most.
func (x *Exam) holderAndWaiter(d time.Duration) *two {
	x.Helper()
	name, a, b := x.pair()
	held := x.Acquired(a, name, 10*time.Second)
	return &two{name, a, b, held, x.Waits(b, name, d)}
}

// Taken is Acquired for another process.
func (x *Exam) Taken(p *Process, name string, d time.Duration, share ...history.Share) *Remote {
	x.Helper()
	began := time.Now()
	r, err := p.Acquire(d, name, share...)
	if err != nil {
		x.fatalUnlessLate(began, "%s did not get the lock within %v: %v", p.Name, d, err)
	}
	x.grants(name, r)
	return r
}

// Close closes a user before the end.
func (x *Exam) Close(p *Player) {
	x.Helper()
	x.wasClosed(time.Now(), p.client.Close(x.Within(15*time.Second)))
}

// Released has h given back, which has to succeed.
func (x *Exam) Released(h *Holding) {
	x.Helper()
	began := time.Now()
	x.wasReleased(h, began, h.Release(x.Within(10*time.Second)))
}

// wasReleased asserts that the release of h, which began then, succeeded.
func (x *Exam) wasReleased(h *Holding, began time.Time, err error) {
	x.Helper()
	if errors.Is(err, locker.ErrLost) {
		x.lost(h, fmt.Sprintf("release: %v", err))
	} else if err != nil {
		x.unlessLate(began, "release: %v", err)
	}
}

// Waits has p wait for the lock in the background, and returns when it stands in the
// queue at the server. Waiters of another library may not show there: then it returns when the servers have heard from p.
func (x *Exam) Waits(p *Player, name string, d time.Duration) <-chan Got {
	x.Helper()
	asked := func() (int, error) { return x.waiting(name) }
	if x.Waiting == nil {
		asked = func() (int, error) { return p.sent(), nil }
	}
	before, _ := asked()
	c := x.asks(p, name, d)
	var failed error
	defer func() {
		if failed != nil {
			x.Logf("the servers did not say who waits: %v", failed)
		}
	}()
	x.Until("there is one more who waits", 10*time.Second, func() bool {
		var n int
		n, failed = asked()
		if n <= before && len(c) > 0 {
			got := <-c
			x.lostTooSoon(name)
			x.Fatalf("instead of waiting it got the lock (error: %v) after %v, in which this process stood still for %v",
				got.Err, got.Took, pulse.Sum(time.Now().Add(-got.Took)))
		}
		return n > before
	})
	return c
}

// asks has p ask for the lock in the background.
func (x *Exam) asks(p *Player, name string, d time.Duration) <-chan Got {
	c := make(chan Got, 1)
	ctx := x.Within(d)
	go func() {
		start := time.Now()
		h, err := p.Acquire(ctx, name)
		c <- Got{h, err, time.Since(start)}
	}()
	return c
}

// stillWaits asserts that a wait does not end within d, in which h holds the lock.
func (x *Exam) stillWaits(c <-chan Got, h *Holding, d time.Duration) {
	x.Helper()
	select {
	case g := <-c:
		x.StillHolds(h, "who is waited for")
		x.Fatalf("a wait ended while the lock was held: %v", g.Err)
	case <-time.After(d):
	}
}

// waiting returns how many wait for the lock and show at the servers.
func (x *Exam) waiting(name string) (int, error) {
	if x.Waiting == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(x.Ctx, 5*time.Second)
	defer cancel()
	return x.Waiting(ctx, name)
}

// Got is how a wait has ended.
type Got struct {
	Holding *Holding
	Err     error
	Took    time.Duration
}

// Get waits for the end of a wait, which has to be a lock.
func (x *Exam) Get(c <-chan Got) *Holding {
	x.Helper()
	select {
	case g := <-c:
		if g.Err != nil {
			x.Fatalf("a waiter did not get the lock: %v", g.Err)
		}
		return g.Holding
	case <-x.Ctx.Done():
		x.Fatalf("a waiter is stuck")
		return nil
	}
}

// Told waits until the holder has been told of the loss, if the lock tells.
func (x *Exam) Told(h *Holding, within time.Duration) {
	x.Helper()
	if !x.Backend.Offers.Lost {
		return
	}
	began := time.Now()
	if _, told := lateness.Receive(x.Ctx, pulse, h.Lost(), within); !told {
		x.unlessLate(began, "the holder was not told within %v that the lock is lost", within)
	}
}

// tooLate asserts that the resource refused the write of a holder that came after the loss, and that its release
// said so.
func (x *Exam) tooLate(write, release error) {
	x.Helper()
	if x.Backend.Offers.Tokens && !errors.Is(write, fence.ErrStale) {
		x.Errorf("the late write of the first holder: %v, want it to be refused", write)
	}
	if x.Backend.Offers.Late && !errors.Is(release, locker.ErrLost) {
		x.Errorf("the late release of the first holder: %v, want ErrLost", release)
	}
}

// Until waits until cond is true.
func (x *Exam) Until(what string, within time.Duration, cond func() bool) {
	x.Helper()
	eventually.Within(x, within, what, cond)
}

// believing is the TTL where a holder is to go on believing in a lock that is gone until
// another has it, however slow the machine is.
const believing = 6 * time.Second

// Fenced asserts that the resource takes what the second holder writes and refuses the
// first, who came before.
func (x *Exam) Fenced(first, second *Holding) {
	x.Helper()
	if !x.Backend.Offers.Tokens {
		return
	}
	if second.Lock.Token() <= first.Lock.Token() {
		x.Errorf("tokens %d and then %d", first.Lock.Token(), second.Lock.Token())
	}
	if err := second.Work(); err != nil {
		x.Errorf("the second holder's write: %v", err)
	}
	if err := first.Work(); !errors.Is(err, fence.ErrStale) {
		x.Errorf("the first holder's write: %v, want it to be refused", err)
	}
}

// ToldApart waits until two are seen to hold at once, or the first has lost the lock, and
// asserts that they are told apart.
func (x *Exam) ToldApart(first, second *Holding) {
	x.Helper()
	x.Until("the first has looked once more", 5*time.Second, func() bool {
		return first.LostAt() != 0 || first.Alive() > second.grant
	})
	x.Fenced(first, second)
}

// forgotten is how servers come to forget a lock.
type forgotten struct {
	ttl     time.Duration // of the lock
	how     string
	prepare func(a *Network) // before A has the lock; may be nil
	forget  func(name string, nets []*Network) error
}

// secondHolder has A hold a lock, the servers forget it, and B take it too: nothing can prevent that, and their tokens
// tell the two apart.
func (x *Exam) secondHolder(f forgotten) {
	x.Helper()
	x.TwoHold = true
	x.Access.TTL = f.ttl
	name, a, b := x.pair()
	x.Warm(a, b)
	if f.prepare != nil {
		f.prepare(a.net)
	}
	first := x.Acquired(a, name, time.Minute)
	a.net.Freeze() // or A hears of it before B has the lock
	x.Did(f.how, true, name, func() error { return f.forget(name, []*Network{a.net, b.net}) })
	second := x.Acquired(b, name, time.Minute)
	if first.hasLost() {
		x.again(first.user() + " lost the lock before another had it")
	}
	x.ToldApart(first, second)
	a.net.Heal()
	x.Told(first, f.ttl+noise)
	x.Released(second)
}

// GoesOn is Get for a wait that has to end within some time since something happened.
func (x *Exam) GoesOn(c <-chan Got, since time.Time, within time.Duration, what string) *Holding {
	x.Helper()
	h := x.Get(c)
	took := time.Since(since)
	if !inTime(took, within, since) {
		x.unlessLate(since, "the waiter had the lock %v after %s, want %v at the most", took, what, within)
	} else {
		x.Logf("the waiter had the lock %v after %s", took, what)
	}
	return h
}
