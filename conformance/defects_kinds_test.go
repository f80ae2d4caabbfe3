package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// A server or a driver that does not do its part for one kind of lock.
var kindDefects = []defect{
	{
		name:    "permits without saying so",
		cases:   "Permits/Refused",
		backend: func(b *Backend) { b.Permits = false },
	},
	{
		name:   "permits are counted one by one",
		cases:  "Permits/NeverMore Permits/KofN",
		driver: reweighed(func(c *driver.Claim) { c.Weight = 1 }, isPermits),
	},
	{
		name:   "one permit holder at a time",
		cases:  "Permits/NoneIdle Permits/KofN",
		driver: reweighed(func(c *driver.Claim) { c.Weight = c.Limit }, isPermits),
	},
	{
		name:   "permits are counted up to a thousand",
		cases:  "Permits/KofN",
		driver: reweighed(func(c *driver.Claim) { c.Weight = min(c.Weight, 1000) }, isPermits),
	},
	{
		name:   "shared locks up to 32",
		cases:  "Shared/Many",
		driver: reweighed(func(c *driver.Claim) { c.Limit = 32 }, isShared),
	},
	{
		name:   "a renewal is for all who hold the name",
		cases:  "Shared/DeadReader",
		server: func(s *server) { s.renewsAll = true },
	},
	{
		name:   "readers of one Locker take turns",
		cases:  "Shared/OneLocker",
		client: turns,
	},
	{
		name:   "exclusive ones poll and are overtaken",
		cases:  "Mixed/InOrder Shared/ExclusiveDoesNotStarve Shared/WritersServed",
		driver: overtaken,
	},
	{
		name:  "a name is granted from the head of its queue only",
		cases: "Mixed/BehindPermits",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			all, err := next.Look(ctx, c.Name)
			if err == nil && slices.ContainsFunc(all, func(p driver.Position) bool { return !p.Held }) && !c.Wait {
				return driver.Grant{}, driver.ErrTaken
			}
			return next.Acquire(ctx, c)
		}}),
	},
	{
		name:  "readers who came later are waited for",
		cases: "Mixed/BehindPermits",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			g, err := next.Acquire(ctx, c)
			reads := func(p driver.Position) bool { return p.Held && p.Weight == 1 && p.Limit == driver.All }
			for err == nil && isPermits(c) {
				all, err := next.Look(ctx, c.Name)
				if err != nil || !slices.ContainsFunc(all, reads) {
					break
				}
				time.Sleep(time.Millisecond)
			}
			return g, err
		}}),
	},
	{
		name:  "only exclusive claims are abandoned",
		cases: "Ghosts/CancelledWaiter/shared Ghosts/CancelledWaiter/permits Litter/Contention/shared Litter/Contention/permits",
		driver: bend(bent{
			abandon: func(next whole, ctx context.Context, c *driver.Claim) error {
				if c.Weight != driver.All {
					return nil
				}
				return next.Abandon(ctx, c)
			},
			acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				return aside(ctx, func() (driver.Grant, error) { return next.Acquire(context.WithoutCancel(ctx), c) })
			},
		}),
	},
	{
		name:  "only exclusive claims are renewed",
		cases: "Exclusion/RenewedWhileHeld/shared Exclusion/WaitedLockIsRenewed/permits",
		driver: bend(bent{renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
			next.Renew(ctx, slices.DeleteFunc(slices.Clone(claims), func(c *driver.Claim) bool { return c.Weight != driver.All }), report)
		}}),
	},
	{
		name:  "only exclusive claims end",
		cases: "Death/Silence/shared Death/KilledHolder/permits Death/Lease/shared Permits/DeathGivesBack",
		server: func(s *server) {
			s.ttl = func(in *Call) time.Duration {
				if in.Weight != driver.All {
					return time.Hour
				}
				return in.TTL
			}
		},
		driver: bend(bent{abandon: func(whole, context.Context, *driver.Claim) error { return nil }}),
	},
	{
		name:   "only exclusive claims are told that they were destroyed",
		cases:  "Loss/Destroyed/shared Release/AfterDestroy/permits",
		driver: unnoticed(func(c *driver.Claim) bool { return c.Weight != driver.All }),
	},
	{
		name:   "what a lease is for is not asked again",
		cases:  "Loss/DestroyedLease",
		driver: unnoticed(func(c *driver.Claim) bool { return c.Lease }),
	},

	{
		name:    "downgrades without saying so",
		cases:   "Downgrade/Refused",
		backend: func(b *Backend) { b.Downgrade = false },
	},
	{
		name:   "a downgrade does nothing",
		cases:  "Downgrade/OthersJoin Inspect/Downgraded",
		driver: bend(bent{lighten: func(whole, context.Context, *driver.Claim, int32) error { return nil }}),
	},
	{
		name:  "a downgrade lets go",
		cases: "Downgrade/WriterStaysOut Downgrade/Renewed Downgrade/OthersJoin",
		driver: bend(bent{lighten: func(next whole, ctx context.Context, c *driver.Claim, _ int32) error {
			return next.Release(ctx, c)
		}}),
	},
	{
		name:  "a downgrade leaves a claim behind",
		cases: "Downgrade/NoGhost",
		driver: bend(bent{lighten: func(next whole, ctx context.Context, c *driver.Claim, weight int32) error {
			err := next.Lighten(ctx, c, weight)
			ghost := *c
			ghost.ID, ghost.Weight = ghost.ID+"?", weight
			_, _ = next.Acquire(ctx, &ghost)
			return err
		}}),
	},

	{
		name:  "the release of a lock that was made shared gives back the weight that it had before",
		cases: "Downgrade/NoGhost",
		driver: func() func(whole) *bent {
			var marks sync.Map // IDs that were made shared, and names of which too much was given back
			return func(whole) *bent {
				return &bent{
					lighten: func(next whole, ctx context.Context, c *driver.Claim, weight int32) error {
						marks.Store(c.ID, true)
						return next.Lighten(ctx, c, weight)
					},
					release: func(next whole, ctx context.Context, c *driver.Claim) error {
						if _, was := marks.Load(c.ID); was {
							marks.Store(c.Name, true)
						}
						return next.Release(ctx, c)
					},
					acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
						other := *c
						if _, fits := marks.Load(c.Name); fits {
							other.Weight = 1
						}
						return next.Acquire(ctx, &other)
					},
				}
			}
		},
	},

	{
		name:  "a downgrade is of whoever holds the name",
		cases: "Downgrade/DestroyedUnseen",
		driver: bend(bent{lighten: func(next whole, ctx context.Context, c *driver.Claim, weight int32) error {
			for _, id := range holdersOf(next, ctx, c.Name) {
				_ = next.Lighten(ctx, &driver.Claim{ID: id}, weight)
			}
			return next.Lighten(ctx, c, weight)
		}}),
	},

	{
		name:    "keeps names taken without saying so",
		cases:   "AtLeast/Refused",
		backend: func(b *Backend) { b.AtLeast = false },
	},
	{
		name:  "the release of a lost name with AtLeast evicts its holder",
		cases: "Release/DestroyedUnseen",
		driver: bend(bent{linger: func(next whole, ctx context.Context, c *driver.Claim, d time.Duration) error {
			err := next.Linger(ctx, c, d)
			if errors.Is(err, driver.ErrGone) {
				for _, id := range holdersOf(next, ctx, c.Name) {
					_ = next.Evict(ctx, c.Name, id)
				}
			}
			return err
		}}),
	},
	{
		name: "AtLeast is forgotten at the release",
		cases: `AtLeast/StaysTaken AtLeast/StaysTaken/shared AtLeast/StaysTaken/permits AtLeast/Permits
			AtLeast/AfterClose AtLeast/DeadProcess`,
		driver: bend(bent{linger: func(next whole, ctx context.Context, c *driver.Claim, _ time.Duration) error {
			return next.Release(ctx, c)
		}}),
	},
	{
		name:  "AtLeast is much more",
		cases: "AtLeast/StaysTaken AtLeast/AfterClose AtLeast/DeadProcess",
		driver: bend(bent{linger: func(next whole, ctx context.Context, c *driver.Claim, d time.Duration) error {
			return next.Linger(ctx, c, d+time.Minute)
		}}),
	},
	{
		name:  "AtLeast is a bit less, and clients open slowly",
		cases: "AtLeast/StaysTaken AtLeast/Permits AtLeast/AfterClose",
		driver: bend(bent{linger: func(next whole, ctx context.Context, c *driver.Claim, d time.Duration) error {
			return next.Linger(ctx, c, d-300*time.Millisecond)
		}}),
		harness: func(h *Harness) {
			open := h.Open
			h.Open = func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
				time.Sleep(500 * time.Millisecond)
				return open(ctx, opts...)
			}
		},
	},
	{
		name:  "when a permit stays taken one waiter is told and no other",
		cases: "AtLeast/PermitComesFree",
		driver: func() func(whole) *bent {
			var stays atomic.Bool
			var told atomic.Int64
			return func(whole) *bent {
				return &bent{
					linger: func(next whole, ctx context.Context, c *driver.Claim, d time.Duration) error {
						stays.Store(true)
						return next.Linger(ctx, c, d)
					},
					acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
						g, err := next.Acquire(ctx, c)
						if err == nil && stays.Load() && told.Add(1) > 1 {
							<-ctx.Done()
							err = ctx.Err()
						}
						return g, err
					},
				}
			}
		},
	},
	{
		name:  "what is released stays taken for a moment",
		cases: "AtLeast/Over",
		driver: bend(bent{release: func(next whole, ctx context.Context, c *driver.Claim) error {
			return next.Linger(ctx, c, time.Second)
		}}),
	},
	{
		name:  "what is released stays taken",
		cases: "AtLeast/Over Release/FreesForAll",
		driver: bend(bent{release: func(next whole, ctx context.Context, c *driver.Claim) error {
			return next.Linger(ctx, c, time.Hour)
		}}),
	},

	{
		name:    "shows names without saying so",
		cases:   "Inspect/Refused",
		backend: func(b *Backend) { b.Inspect = false },
	},
	{
		name:  "owners are shown as text",
		cases: "Inspect/Positions",
		driver: looking(func(all []driver.Position) []driver.Position {
			for i := range all {
				all[i].Owner = string([]rune(all[i].Owner))
			}
			return all
		}),
	},
	{
		name:   "the last is shown first",
		cases:  "Inspect/Positions",
		driver: looking(func(all []driver.Position) []driver.Position { slices.Reverse(all); return all }),
	},
	{
		name:   "one holder is shown",
		cases:  "Inspect/Together",
		driver: looking(func(all []driver.Position) []driver.Position { return all[:min(len(all), 1)] }),
	},
	{
		name:  "a look takes a place",
		cases: "Inspect/Nobody",
		driver: bend(bent{look: func(next whole, ctx context.Context, name string) ([]driver.Position, error) {
			go func() {
				_, _ = next.Acquire(context.Background(), &driver.Claim{Name: name, ID: "?", TTL: time.Hour, Weight: 1, Limit: driver.All})
			}()
			return next.Look(ctx, name)
		}}),
	},
	{
		name:  "who has released is not shown",
		cases: "Inspect/StaysTaken",
		driver: func() func(whole) *bent {
			var released sync.Map
			return func(whole) *bent {
				return &bent{
					linger: func(next whole, ctx context.Context, c *driver.Claim, d time.Duration) error {
						released.Store(c.ID, true)
						return next.Linger(ctx, c, d)
					},
					look: func(next whole, ctx context.Context, name string) ([]driver.Position, error) {
						all, err := next.Look(ctx, name)
						return slices.DeleteFunc(all, func(p driver.Position) bool { _, gone := released.Load(p.ID); return gone }), err
					},
				}
			}
		},
	},
	{
		name:  "names are found by what is in them",
		cases: "Inspect/Names",
		driver: bend(bent{names: func(next whole, ctx context.Context, prefix string) namesFound {
			return next.Names(ctx, prefix[:max(len(prefix)-1, 0)])
		}}),
	},
	{
		name:  "a name is given for each who wants it",
		cases: "Inspect/Names",
		driver: bend(bent{names: func(next whole, ctx context.Context, prefix string) namesFound {
			return func(yield func(string, error) bool) {
				for name, err := range next.Names(ctx, prefix) {
					for range 2 {
						if !yield(name, err) {
							return
						}
					}
				}
			}
		}}),
	},

	{
		name:    "evicts without saying so",
		cases:   "Evict/Refused",
		backend: func(b *Backend) { b.Evict = false },
	},
	{
		name:   "Evict does nothing",
		cases:  "Evict/Holder Evict/Holder/shared Evict/Waiter Evict/OneOfMany",
		driver: bend(bent{evict: func(whole, context.Context, string, string) error { return nil }}),
	},
	{
		name:  "Evict is for whoever holds the name",
		cases: "Evict/Successor Evict/OneOfMany Evict/Waiter",
		driver: bend(bent{evict: func(next whole, ctx context.Context, name, _ string) (err error) {
			for _, id := range holdersOf(next, ctx, name) {
				err = next.Evict(ctx, name, id)
			}
			return err
		}}),
	},
	{
		name:  "spare tokens are made up",
		cases: "HandOver/Tokens HandOver/Contended",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			spare := c.Spare
			c.Spare = 0
			g, err := next.Acquire(ctx, c)
			c.Spare = spare
			g.Spare = int64(spare)
			return g, err
		}}),
	},
	{
		name:  "a hand-over has no end",
		cases: "HandOver/OthersWait",
		harness: func(h *Harness) {
			open := h.Open
			h.Open = func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
				return open(ctx, append(opts, locker.WithHandOver(time.Minute))...)
			}
		},
	},
}

func isShared(c *driver.Claim) bool  { return c.Weight == 1 && c.Limit == driver.All }
func isPermits(c *driver.Claim) bool { return c.Limit != driver.All }

// holdersOf returns the IDs of those who hold name.
func holdersOf(next whole, ctx context.Context, name string) (ids []string) {
	all, _ := next.Look(ctx, name)
	for _, p := range all {
		if p.Held {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// reweighed changes those claims on their way to the server.
func reweighed(change func(*driver.Claim), which func(*driver.Claim) bool) func() func(whole) *bent {
	return bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
		other := *c
		if which(c) {
			change(&other)
		}
		return next.Acquire(ctx, &other)
	}})
}

// looking changes what is shown.
func looking(change func([]driver.Position) []driver.Position) func() func(whole) *bent {
	return bend(bent{look: func(next whole, ctx context.Context, name string) ([]driver.Position, error) {
		all, err := next.Look(ctx, name)
		return change(all), err
	}})
}

// unnoticed keeps it from those claims that they are gone.
func unnoticed(which func(*driver.Claim) bool) func() func(whole) *bent {
	return bend(bent{renew: renewed(func(sent driver.Instant, c *driver.Claim, until driver.Instant, err error) (driver.Instant, error) {
		if which(c) && errors.Is(err, driver.ErrGone) {
			return sent.Add(c.TTL), nil
		}
		return until, err
	})})
}

// turns has those of one Locker who want a name hold it one after the other.
func turns() func(Client) *rigged {
	return func(Client) *rigged {
		var names sync.Map
		return &rigged{acquire: func(next Client, ctx ctx, name string, opts ...locker.AcquireOption) (Holding, error) {
			value, _ := names.LoadOrStore(name, make(chan struct{}, 1))
			turn := value.(chan struct{})
			select {
			case turn <- struct{}{}:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			leave := sync.OnceFunc(func() { <-turn })
			h, err := next.Acquire(ctx, name, opts...)
			if err != nil {
				leave()
				return nil, err
			}
			return whenReleased(h, leave), nil
		}}
	}
}

// overtaken has an exclusive claim that waits be seen in the queue, but count for nobody.
func overtaken() func(whole) *bent {
	return func(whole) *bent {
		poll := polling(5 * time.Millisecond)
		return &bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			if c.Weight != driver.All || !c.Wait {
				return next.Acquire(ctx, c)
			}
			shown := *c
			shown.ID, shown.Weight = shown.ID+"?", 0
			_, _ = next.Acquire(ctx, &shown)
			defer func() { _ = next.Abandon(context.WithoutCancel(ctx), &shown) }()
			return poll(next, ctx, c)
		}}
	}
}
