package faults

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/lateness"
)

// What can happen to those who pass a lock on, lead, hold several names, or are evicted.
var severalRows = []Row{
	{Number: 49, Shows: []int{3, 9}, Name: "cut-off-while-handing-over", Quick: true, Run: handOverLost,
		See: "goroutines that pass a lock on among themselves stop when it is lost, before the next holder has it; tokens go on rising"},
	{Number: 50, Shows: []int{7}, Name: "evicted-too-late", Quick: true, Run: func(x *Exam) { evictedTooLate(x, locker.Evict) },
		See: "an eviction of a holder who has released, or is releasing, never hits the successor"},
	{Number: 51, Shows: []int{3}, Name: "leader-deposed", Quick: true, Run: func(x *Exam) { leaderDeposed(x, locker.Evict) },
		See: "who leads is told before another does, and campaigns again"},
	{Number: 52, Shows: []int{3, 5}, Name: "one-of-several-lost", Quick: true, Run: oneOfSeveralLost,
		See: "the context of all ends with the first that is lost; if that is before the last was granted, all others are free"},
}

// A client whose goroutines pass a lock on among themselves is cut off from the servers.
func handOverLost(x *Exam) {
	x.Access.TTL = believing
	name := x.Lock()
	b, _ := x.Player("B")
	x.Access.HandOver = 10 * x.Backend.TTL
	a, net := x.Player("A")
	var passed atomic.Int64
	var cut atomic.Bool
	ctx, stop := context.WithCancel(x.Ctx)
	defer stop()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				h, err := a.Acquire(ctx, name)
				if err != nil {
					continue
				}
				x.grants(name, h)
				_ = h.Work()
				time.Sleep(10 * time.Millisecond) // slowly: a lease has tokens for so many only
				if cut.Load() {
					<-h.Lost()
				}
				_ = h.Release(context.WithoutCancel(ctx))
				passed.Add(1)
			}
		})
	}
	x.Until("the lock is passed on", 20*time.Second, func() bool { return passed.Load() > 20 })
	wait := x.Waits(b, name, time.Minute)
	cut.Store(true) // whoever has the lock now keeps it until it is lost
	net.Freeze()
	hb := x.Get(wait)
	if err := hb.Work(); err != nil {
		x.Errorf("the next holder's write: %v", err)
	}
	time.Sleep(200 * time.Millisecond) // who still believes in it is seen to
	before := passed.Load()
	cut.Store(false)
	net.Heal()
	x.Released(hb)
	x.Until("the lock is passed on again", 20*time.Second+x.Backend.Death, func() bool { return passed.Load() > before+20 })
	stop()
	all.Wait()
}

// evictFunc is locker.Evict, or what stands for it in the test of a row.
type evictFunc func(context.Context, locker.Locker, locker.Position) error

// An operator evicts whom he saw holding, who lets go at the same time.
func evictedTooLate(x *Exam, evict evictFunc) {
	x.Access.TTL = long
	name, a, b := x.pair()
	operator, _ := x.Player("O")
	for round := range 12 {
		ha := x.Acquired(a, name, 10*time.Second)
		seen, err := locker.Inspect(x.Within(time.Minute), operator.Locker(), name)
		x.Must(err)
		if len(seen) != 1 || !seen[0].Held || seen[0].Token != ha.Lock.Token() {
			x.StillHolds(ha, "who is looked for")
			x.Fatalf("Inspect shows %+v, want the holder of token %d", seen, ha.Lock.Token())
		}
		wait := x.Waits(b, name, 30*time.Second)
		var both sync.WaitGroup
		var released, evicted error
		began := time.Now()
		both.Go(func() { released = ha.Release(x.Within(10 * time.Second)) })
		if round%3 == 0 {
			both.Wait() // the name has its next holder for sure
		}
		x.DidTo(ha, "evict the holder that was seen", func() error {
			evicted = evict(x.Within(time.Minute), operator.Locker(), seen[0])
			return nil
		})
		both.Wait()
		if !errors.Is(released, locker.ErrLost) {
			x.wasReleased(ha, began, released)
		}
		if evicted != nil && !errors.Is(evicted, locker.ErrNotFound) || evicted == nil && round%3 == 0 {
			x.Errorf("the eviction: %v, want ErrNotFound", evicted)
		}
		hb := x.Get(wait)
		if round%6 == 0 {
			time.Sleep(1200 * time.Millisecond) // an eviction is told within a second
		}
		x.Released(hb) // it would say ErrLost
	}
}

// Two campaign; who leads is evicted, and the other is cut off from the servers then.
func leaderDeposed(x *Exam, evict evictFunc) {
	name, a, b := x.pair()
	ctx, stop := context.WithCancel(x.Ctx)
	defer stop()
	var over sync.WaitGroup
	campaign := func(p *Player) <-chan *Holding {
		leads := make(chan *Holding, 1)
		over.Go(func() {
			err := p.Lead(ctx, name, func(ctx context.Context, h *Holding) error {
				select {
				case leads <- h:
				case <-ctx.Done(): // nobody asks any more
				}
				<-ctx.Done()
				return ctx.Err()
			})
			over := ctx.Err() != nil && errors.Is(err, locker.ErrClosed) // of a row that begins again
			if !over && !errors.Is(err, context.Canceled) {
				x.Errorf("%s campaigns no more: %v", p.Name, err)
			}
		})
		return leads
	}
	next := func(leads <-chan *Holding, within time.Duration) *Holding {
		x.Helper()
		h, came := lateness.Receive(x.Ctx, pulse, leads, within)
		if !came {
			x.Fatalf("nobody leads after %v", within)
		}
		return h
	}
	waits := func() {
		x.Helper()
		x.Until("the other campaigns", 20*time.Second, func() bool { n, _ := x.waiting(name); return n > 0 })
	}
	leadsA := campaign(a)
	ha := next(leadsA, 20*time.Second)
	leadsB := campaign(b)
	waits()
	seen, err := locker.Inspect(x.Within(time.Minute), a.Locker(), name)
	x.Must(err)
	if len(seen) == 0 || seen[0].Token != ha.Lock.Token() {
		x.StillHolds(ha, "the leader")
		x.Fatalf("Inspect shows %+v, want the leader with token %d first", seen, ha.Lock.Token())
	}
	x.DidTo(ha, "evict the leader", func() error {
		err := evict(x.Within(time.Minute), a.Locker(), seen[0])
		if errors.Is(err, locker.ErrNotFound) {
			return nil // it had just lost the lock, and is to be told so all the same
		}
		return err
	})
	hb := next(leadsB, 20*time.Second)
	x.Told(ha, time.Second+noise)
	waits() // A, again
	b.net.Freeze()
	ha = next(leadsA, x.Backend.Death+20*time.Second)
	x.Told(hb, noise)
	b.net.Heal()
	waits()
	x.StillHolds(ha, "the leader")
	stop()
	over.Wait()
}

// Somebody holds several names; one of them is deleted by hand. Then the same while the last is waited for.
func oneOfSeveralLost(x *Exam) {
	x.Access.TTL = long // the others are to be held until they are given back
	first, a, b := x.pair()
	names := []string{first, x.Lock(), x.Lock()}
	locks, held, err := a.AcquireAll(x.Within(time.Minute), names)
	x.Must(err)
	x.Did("delete by hand", true, names[1], func() error { return x.Destroy(x.Within(time.Minute), names[1]) })
	x.Told(held[1], time.Second+noise)
	if err := locks.Context().Err(); err == nil {
		x.Errorf("the context of all goes on after one was lost")
	}
	for i, h := range held {
		if i != 1 {
			x.Released(h)
		} else if err := h.Release(x.Within(10 * time.Second)); !errors.Is(err, locker.ErrLost) {
			x.Errorf("release of the name that was deleted: %v, want ErrLost", err)
		}
	}

	last := x.Acquired(b, names[2], 10*time.Second)
	failed := make(chan error, 1)
	ctx := x.Within(time.Minute)
	go func() {
		_, _, err := a.AcquireAll(ctx, names)
		failed <- err
	}()
	x.Until("the second name is held, and the third waited for", 20*time.Second, func() bool {
		seen, err := locker.Inspect(ctx, b.Locker(), names[2])
		return err == nil && len(seen) == 2
	})
	x.Did("delete by hand", true, names[0], func() error { return x.Destroy(x.Within(time.Minute), names[0]) })
	deleted := time.Now()
	err, ended := lateness.Receive(x.Ctx, pulse, failed, time.Second+noise)
	if !ended {
		x.fatalUnlessLate(deleted, "the loss of a name does not end the wait for others")
	}
	if !errors.Is(err, locker.ErrLost) {
		x.Errorf("several names, of which one was lost: %v, want ErrLost", err)
	}
	for _, name := range names[:2] {
		x.Released(x.Acquired(b, name, 10*time.Second))
	}
	x.Released(last)
}
