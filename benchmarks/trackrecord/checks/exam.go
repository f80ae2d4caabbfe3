package checks

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/internal/faults"
)

// exam is a check under way: two users of a library, A over a network that can be broken, and a name.
type exam struct {
	*faults.Exam
	a, b *faults.Player
	net  *faults.Network // of a
	name string
}

// users opens both with a TTL and puts check to them.
func users(ttl time.Duration, check func(x *exam)) func(*faults.Exam) {
	return func(on *faults.Exam) {
		on.Access.TTL = ttl
		x := &exam{Exam: on, name: on.Lock()}
		x.a, x.net = x.Player("A")
		x.b, _ = x.Player("B")
		check(x)
	}
}

// held has p take the name.
func (x *exam) held(p *faults.Player) *faults.Holding { return x.Acquired(p, x.name, 10*time.Second) }

// soon returns a context that ends when what takes no time takes too long.
func (x *exam) soon() context.Context { return x.Within(10 * time.Second) }

// giveBack releases a lock that may be lost.
func (x *exam) giveBack(h *faults.Holding) { _ = h.Release(x.Ctx) }

// free tells whether p gets a lock within a second, and gives it back: one that does not
// wait for its holder has shown it by then.
func (x *exam) free(p *faults.Player, name string) bool {
	ctx, cancel := context.WithTimeout(x.Ctx, time.Second)
	defer cancel()
	h, err := p.Acquire(ctx, name)
	if err == nil {
		x.giveBack(h)
	}
	return err == nil
}

// destroy removes the lock behind its holder's back, which is noted as what.
func (x *exam) destroy(what string) {
	x.Did(what, true, x.name, func() error { return x.Destroy(x.soon(), x.name) })
}

// answered complains if a waiter has neither the lock nor an error within d.
func (x *exam) answered(wait <-chan faults.Got, d time.Duration) {
	select {
	case g := <-wait:
		if g.Err == nil {
			x.giveBack(g.Holding)
		}
	case <-time.After(d):
		x.Errorf("the waiter has neither the lock nor an error %v later", d)
	}
}

// returns complains if a call takes a second longer than its ctx allows.
func (x *exam) returns(what string, within time.Duration, call func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(x.Ctx, within)
	defer cancel()
	start := time.Now()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		call(ctx)
	}()
	select {
	case <-returned:
		if took := time.Since(start); took > within+time.Second {
			x.Errorf("%s took %v with a ctx of %v", what, took.Round(100*time.Millisecond), within)
		}
	case <-time.After(within + 9*time.Second):
		x.Errorf("%s has not returned after %v with a ctx of %v", what, within+9*time.Second, within)
	}
}
