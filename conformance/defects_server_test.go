package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// A server that does not do its part.
var serverDefects = []defect{
	{
		name:   "release frees whoever holds the name",
		cases:  "Release/DestroyedUnseen Release/AfterTakeover",
		server: func(s *server) { s.byName = true },
	},
	{
		name:   "renewal takes a lost name again",
		cases:  "Loss/NotRenewedBack",
		server: func(s *server) { s.resurrect = true },
	},
	{
		name: "leases last much longer than was asked for",
		cases: `Death/KilledHolder Death/KilledHolderOfMany Death/KilledWaiter Death/KilledAtRandom Death/Silence Death/Successor
			Close/Unreachable AtLeast/Killed`,
		server: func(s *server) { s.ttl = func(in *Call) time.Duration { return in.TTL + time.Minute } },
	},
	{
		name:   "a waiter that is gone waits for its turn",
		cases:  "Death/KilledBetween",
		server: func(s *server) { s.keepsDead = true },
	},
	{
		name:   "leases without end",
		cases:  "Litter/Expired Litter/Dead Death/Lease Death/TryAfterLease",
		server: func(s *server) { s.ttl = func(*Call) time.Duration { return time.Hour } },
		driver: bend(bent{abandon: func(whole, context.Context, *driver.Claim) error { return nil }}),
	},
	{
		name: "every token the same",
		cases: `Fencing/OneLocker Fencing/Contended Fencing/Distinct Fencing/AfterExpiry Fencing/AfterTakeover
			Fencing/AfterDestroy Shared/Fencing Permits/Fencing`,
		server: func(s *server) { s.token = func(int64) int64 { return 7 } },
	},
	{
		name:   "tokens fall",
		cases:  "Fencing/OneLocker Exclusion/Lockers Death/KilledHolder Loss/StoppedProcess",
		server: func(s *server) { s.token = func(n int64) int64 { return 1<<40 - n } },
	},
	{
		name:   "tokens begin anew at a restart",
		cases:  "Fencing/AfterRestart",
		server: func(s *server) { s.token = func(n int64) int64 { return n + 5000 - 1000*s.starts.Load() } },
	},
	{
		name:   "a restart forgets locks",
		cases:  "Exclusion/Restart Outage/HolderKeeps",
		server: func(s *server) { s.forgets = true },
	},
	{
		name:   "a restart forgets locks, and waiters come back late",
		cases:  "Exclusion/Restart",
		server: func(s *server) { s.forgets = true },
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			g, err := next.(*remote).once(ctx, c)
			if err == nil || !c.Wait {
				return g, err
			}
			time.Sleep(3 * time.Second)
			return next.Acquire(ctx, c)
		}}),
	},
	{
		name:  "used names are remembered",
		cases: "Litter/UsedNames Litter/Contention",
		driver: bend(bent{
			release: func(next whole, ctx context.Context, c *driver.Claim) error {
				mark := &driver.Claim{Name: c.Name + " was here", ID: c.ID + "+", TTL: time.Hour}
				_, _ = next.Acquire(ctx, mark)
				return next.Release(ctx, c)
			},
		}),
	},
	{
		name:    "fenced without saying so",
		cases:   "Fencing/Unclaimed",
		backend: func(b *Backend) { b.Fenced = false },
	},
	{
		name:    "shared without saying so",
		cases:   "Shared/Refused",
		backend: func(b *Backend) { b.Shared = false },
	},
	{
		name:  "a wrong secret means taken",
		cases: "Errors/Misconfigured",
		driver: bend(bent{acquire: granted(func(_ *driver.Claim, g driver.Grant, err error) (driver.Grant, error) {
			if err != nil && strings.Contains(err.Error(), errSecret.Error()) {
				err = driver.ErrTaken
			}
			return g, err
		})}),
	},
}

func polling(every time.Duration) func(whole, context.Context, *driver.Claim) (driver.Grant, error) {
	return func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
		for i := 0; ; i++ {
			if over, g, err := tryOnce(next, ctx, c); over {
				return g, err
			}
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return driver.Grant{}, ctx.Err()
			}
		}
	}
}

// tryOnce asks without waiting; over means that c need not ask again.
func tryOnce(next whole, ctx context.Context, c *driver.Claim) (over bool, g driver.Grant, err error) {
	once := *c
	once.Wait = false
	g, err = next.Acquire(ctx, &once)
	return !c.Wait || !errors.Is(err, driver.ErrTaken), g, err
}

// crowd is those who wait, in one process, without a queue at the server.
type crowd struct {
	mu      sync.Mutex
	changed chan struct{}
	stack   map[string][]string // name -> IDs
}

func newCrowd() *crowd {
	return &crowd{changed: make(chan struct{}), stack: make(map[string][]string)}
}

func (w *crowd) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *crowd) release(next whole, ctx context.Context, c *driver.Claim) error {
	defer w.wake()
	return next.Release(ctx, c)
}

func herd() func(whole) *bent {
	w := newCrowd()
	return func(whole) *bent {
		return &bent{
			acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				for {
					w.mu.Lock()
					changed := w.changed
					w.mu.Unlock()
					for range 16 { // ten times what is allowed, which fails also where the machine is late
						if over, g, err := tryOnce(next, ctx, c); over {
							return g, err
						}
					}
					select {
					case <-changed:
					case <-ctx.Done():
						return driver.Grant{}, ctx.Err()
					}
				}
			},
			release: w.release,
		}
	}
}

func lifo() func(whole) *bent {
	w := newCrowd()
	return func(whole) *bent {
		return &bent{
			acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				w.mu.Lock()
				w.stack[c.Name] = append(w.stack[c.Name], c.ID)
				w.mu.Unlock()
				defer func() {
					w.mu.Lock()
					w.stack[c.Name] = slices.DeleteFunc(w.stack[c.Name], func(id string) bool { return id == c.ID })
					w.mu.Unlock()
					w.wake()
				}()
				for {
					w.mu.Lock()
					changed := w.changed
					s := w.stack[c.Name]
					top := s[len(s)-1] == c.ID
					w.mu.Unlock()
					if top || !c.Wait {
						if over, g, err := tryOnce(next, ctx, c); over {
							return g, err
						}
					}
					select {
					case <-changed:
					case <-time.After(time.Second):
					case <-ctx.Done():
						return driver.Grant{}, ctx.Err()
					}
				}
			},
			release: w.release,
		}
	}
}

func neverAgain() func(whole) *bent {
	return func(whole) *bent {
		var broken atomic.Bool
		see := func(err error) error {
			if broken.Load() {
				return errors.New("broken")
			}
			if err != nil && !errors.Is(err, driver.ErrTaken) && !errors.Is(err, driver.ErrGone) {
				broken.Store(true)
			}
			return err
		}
		return &bent{
			traits: func(t *driver.Traits) { t.Check = 20 * time.Millisecond },
			acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				if broken.Load() {
					<-ctx.Done()
					return driver.Grant{}, ctx.Err()
				}
				g, err := next.Acquire(ctx, c)
				return g, see(err)
			},
			renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
				if broken.Load() {
					return
				}
				next.Renew(ctx, claims, func(c *driver.Claim, until driver.Instant, err error) { report(c, until, see(err)) })
			},
			release: func(next whole, ctx context.Context, c *driver.Claim) error {
				if broken.Load() {
					return errors.New("broken")
				}
				return see(next.Release(ctx, c))
			},
		}
	}
}
