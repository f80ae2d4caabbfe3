package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// crowd has n goroutines ask for a name, one after the other, and returns a channel on
// which they send their locks.
func crowd(t *testing.T, l Locker, ctx context.Context, n int) chan *Lock {
	t.Helper()
	locks := make(chan *Lock, n)
	for range n {
		go func() {
			lock, err := l.Acquire(ctx, "x")
			if err != nil {
				lock = nil
			}
			locks <- lock
		}()
		synctest.Wait()
	}
	return locks
}

func release(t *testing.T, lock *Lock) {
	t.Helper()
	if lock == nil {
		t.Fatal("not granted")
	}
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// emptied checks that nothing is left on the server nor in the line, and closes l.
func emptied(t *testing.T, l *core, s *line) {
	t.Helper()
	synctest.Wait()
	if n := len(l.queues); n != 0 {
		t.Errorf("the line still has %d", n)
	}
	if len(s.queue) != 0 {
		t.Errorf("%d claims are left on the server", len(s.queue))
	}
	closeAll(t, l)
}

// The next goroutine's place at the server comes with the release that gives the name to
// the one that is there: only the first two ask for theirs.
func TestReleaseTakesTheNextAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := openLine(t)
		locks := crowd(t, l, context.Background(), 10)
		var last int64
		for range 10 {
			lock := <-locks
			if len(s.queue) > 2 {
				t.Errorf("%d of this Locker are at the server, want the holder and one more", len(s.queue))
			}
			if lock.Token() <= last {
				t.Errorf("token %d after %d", lock.Token(), last)
			}
			last = lock.Token()
			release(t, lock)
			synctest.Wait()
		}
		if s.joins != 2 || s.relayed != 8 {
			t.Errorf("%d asked for a place, %d were taken along; want 2 and 8", s.joins, s.relayed)
		}
		emptied(t, l, s)
	})
}

// The next is in its place before the one that the name goes to knows: whose release takes the one
// after it along, although the one before has not returned yet.
func TestNextIsInPlaceFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := openLine(t)
		locks := crowd(t, l, context.Background(), 4)
		first := <-locks
		s.after = func(_, _ *driver.Claim) error {
			s.after = nil
			release(t, <-locks)
			if s.relayed != 2 {
				t.Errorf("%d were taken along, want 2", s.relayed)
			}
			return nil
		}
		release(t, first)
		release(t, <-locks)
		release(t, <-locks)
		emptied(t, l, s)
	})
}

// Where the release could take nobody along each asks when its turn comes, with a claim
// that the driver has not heard of.
func TestNobodyIsTakenAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := openLine(t)
		s.refuse = true
		var offered []*driver.Claim
		s.before = func(_, next *driver.Claim) error { offered = append(offered, next); return nil }
		locks := crowd(t, l, context.Background(), 5)
		for range 5 {
			release(t, <-locks)
			synctest.Wait()
		}
		if s.joins != 5 || len(offered) != 3 {
			t.Errorf("%d asked for a place, %d were offered to a release; want 5 and 3", s.joins, len(offered))
		}
		for _, c := range offered {
			if slices.Contains(s.finished, c) {
				t.Error("a claim that was not taken along was used all the same")
			}
		}
		emptied(t, l, s)
	})
}

// Promises 5 and 6: whoever gives up while a release has it along comes away at once, and
// nothing is left of it; the line goes on behind it.
func TestGivenUpOnTheWay(t *testing.T) {
	for _, when := range []string{"before the release", "amid it", "after it"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := openLine(t)
				locks := crowd(t, l, context.Background(), 2)
				ctx, cancel := context.WithCancel(context.Background())
				third := crowd(t, l, ctx, 1)
				fourth := crowd(t, l, context.Background(), 1)

				giveUp := func(c, next *driver.Claim) error {
					s.before, s.amid, s.after = nil, nil, nil
					cancel()
					synctest.Wait() // and the second, if it has the name, has left the line
					select {
					case lock := <-third:
						if lock != nil {
							t.Error("granted")
						}
					default:
						t.Error("the call has not returned")
					}
					return nil
				}
				switch when {
				case "before the release":
					s.before = giveUp
				case "amid it":
					s.amid = giveUp
				case "after it":
					s.after = giveUp
				}
				release(t, <-locks)
				release(t, <-locks)
				release(t, <-fourth)
				emptied(t, l, s)
				if len(s.finished) != 4 {
					t.Errorf("%d claims have ended at the server, want 4", len(s.finished))
				}
			})
		})
	}
}

// A release whose answer is lost may have brought the next to the server or not. That one asks
// at once, and the release is repeated.
func TestRelayWithoutAnswer(t *testing.T) {
	for _, lost := range []string{"request", "answer"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := openLine(t)
				fail := func(_, _ *driver.Claim) error { s.before, s.after = nil, nil; return errBroken }
				if lost == "request" {
					s.before = fail
				} else {
					s.after = fail
				}
				locks := crowd(t, l, context.Background(), 5)
				for range 5 {
					release(t, <-locks)
				}
				emptied(t, l, s)
			})
		})
	}
}

// A turn that comes, with a place at the server, at the very moment at which the one in
// line gives up: the place is given back and the turn passed on.
func TestPlaceComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := openLine(t)
		locks := crowd(t, c, context.Background(), 2)
		first := <-locks
		ctx := &meddler{Context: context.Background(), meddle: func() { release(t, first) }}
		if _, err := c.join(ctx, "x", acquisition{}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		release(t, <-locks)
		emptied(t, c, s)
	})
}

// Close ends those who are on the way like all others.
func TestCloseOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := openLine(t)
		closed := make(chan error, 1)
		s.after = func(_, _ *driver.Claim) error {
			go func() { closed <- l.Close(context.Background()) }()
			synctest.Wait()
			return nil
		}
		locks := crowd(t, l, context.Background(), 3)
		release(t, <-locks)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		for range 2 {
			if lock := <-locks; lock != nil && lock.Context().Err() == nil {
				t.Error("held after Close")
			}
		}
		if len(s.queue) != 0 {
			t.Errorf("%d claims are left on the server", len(s.queue))
		}
	})
}

// Whatever gives up, fails or is slow: nobody holds the name beside another, everybody who
// waits long enough has it, and in the end nothing is left.
func TestRelayAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				var mu sync.Mutex // of r
				chance := func(percent int) bool { mu.Lock(); defer mu.Unlock(); return r.IntN(100) < percent }
				some := func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(r.IntN(20)) * time.Millisecond
				}
				l, s := openLine(t)
				trouble := func(_, _ *driver.Claim) error {
					time.Sleep(some())
					if chance(20) {
						return errBroken
					}
					return nil
				}
				s.before, s.after = trouble, trouble
				var inside, entered int
				var all sync.WaitGroup
				for range 20 {
					patient := chance(70)
					wait, hold := some()*20, some()
					all.Go(func() {
						ctx, cancel := context.WithTimeout(context.Background(), wait)
						if patient {
							ctx = context.Background()
						}
						defer cancel()
						lock, err := l.Acquire(ctx, "x")
						if err != nil {
							if patient {
								t.Error(err)
							}
							return
						}
						mu.Lock()
						if inside++; inside > 1 {
							t.Error("two inside")
						}
						entered++
						mu.Unlock()
						time.Sleep(hold)
						mu.Lock()
						inside--
						mu.Unlock()
						release(t, lock)
					})
				}
				all.Wait()
				time.Sleep(time.Minute)
				emptied(t, l, s)
				if entered == 0 {
					t.Error("nobody entered")
				}
			})
		})
	}
}
