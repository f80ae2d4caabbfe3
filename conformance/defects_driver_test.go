package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

func defects() []defect {
	return slices.Concat(serverDefects, driverDefects, nameDefects, clientDefects, holdingDefects, kindDefects, apiDefects)
}

// bend makes the constructor of a defect that keeps no state.
func bend(b bent) func() func(whole) *bent {
	return func() func(whole) *bent {
		return func(whole) *bent { x := b; return &x }
	}
}

// renewed makes a Renew whose answers are changed: what is reported of a claim after a request that was sent then.
func renewed(change func(sent driver.Instant, c *driver.Claim, until driver.Instant, err error) (driver.Instant, error)) renewBent {
	return func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
		sent := next.(*remote).clock.Now()
		next.Renew(ctx, claims, func(c *driver.Claim, until driver.Instant, err error) {
			until, err = change(sent, c, until, err)
			report(c, until, err)
		})
	}
}

// granted makes an Acquire whose answer is changed.
func granted(change func(c *driver.Claim, g driver.Grant, err error) (driver.Grant, error)) acquireBent {
	return func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
		g, err := next.Acquire(ctx, c)
		return change(c, g, err)
	}
}

// A driver that does not do its part.
var driverDefects = []defect{
	{
		name: "grants what is taken",
		cases: `Exclusion/Goroutines Exclusion/Lockers Exclusion/Processes Exclusion/Disturbed
			Exclusion/AcquireOfHeld Exclusion/TryOfHeld Exclusion/Leased Many/NotReentrant Many/Stress
			Shared/AgainstExclusive Ghosts/CancelledWaiter`,
		driver: bend(bent{acquire: grantAnyway}),
	},
	{
		name:   "never renews",
		cases:  "Exclusion/RenewedWhileHeld Loss/Deadline Outage/WorksAfterwards Outage/LostAndGoesOn Many/NamesHeldAtOnce",
		driver: bend(bent{renew: func(whole, context.Context, []*driver.Claim, report) {}}),
	},
	{
		name:  "never renews what was waited for",
		cases: "Exclusion/WaitedLockIsRenewed",
		driver: bend(bent{renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
			next.Renew(ctx, slices.DeleteFunc(slices.Clone(claims), func(c *driver.Claim) bool { return c.Wait }), report)
		}}),
	},
	{
		name:  "renews one lock of many",
		cases: "Many/NamesHeldAtOnce",
		driver: bend(bent{renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
			next.Renew(ctx, claims[:min(1, len(claims))], report)
		}}),
	},
	{
		name: "deadline much too late",
		cases: `Loss/Frozen Loss/Cut Loss/RepliesLost Loss/Lease Loss/StoppedProcess Loss/ServerGone Loss/Do
			Loss/LookTellsTime Shared/Loss Loss/Deadline`,
		driver: bend(bent{
			traits: func(t *driver.Traits) { t.Session = true }, // or the core would not believe it
			acquire: granted(func(_ *driver.Claim, g driver.Grant, err error) (driver.Grant, error) {
				g.Until = g.Until.Add(20 * time.Second)
				return g, err
			}),
			renew: renewed(func(sent driver.Instant, _ *driver.Claim, _ driver.Instant, err error) (driver.Instant, error) {
				if errors.Is(err, driver.ErrGone) {
					err = nil // or it would be told of the end all the same
				}
				return sent.Add(20 * time.Second), err
			}),
		}),
	},
	{
		name:  "deadline counted from when the silence began",
		cases: "Loss/Frozen",
		driver: bend(bent{
			traits: func(t *driver.Traits) { t.Session = true }, // or the core would not believe it
			renew: renewed(func(_ driver.Instant, c *driver.Claim, until driver.Instant, err error) (driver.Instant, error) {
				return until.Add(c.TTL / 2), err
			}),
		}),
	},
	{
		name:  "a lease that is over when it is heard of begins anew",
		cases: "Loss/OldGrant",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			r := next.(*remote)
			g, err := r.ask(ctx, c)
			if err != nil {
				return next.Acquire(ctx, c)
			}
			if now := r.clock.Now(); g.Until <= now {
				g.Until = now.Add(c.TTL)
			}
			return g, nil
		}}),
	},
	{
		name:  "deadline counted from when the answer came",
		cases: "Loss/LateAnswer",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			r := next.(*remote)
			g, err := r.ask(ctx, c)
			now := r.clock.Now()
			if err != nil || g.Until <= now {
				return next.Acquire(ctx, c)
			}
			g.Until = now.Add(c.TTL)
			return g, nil
		}}),
	},
	{
		name:  "a failed renewal counts as done",
		cases: "Loss/RepliesLost Loss/ServerGone Loss/Frozen",
		driver: func() func(whole) *bent {
			return func(next whole) *bent {
				clock := next.(*remote).clock
				return &bent{renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
					for _, c := range claims {
						report(c, clock.Now().Add(c.TTL), nil)
					}
					go next.Renew(ctx, claims, func(*driver.Claim, driver.Instant, error) {})
				}}
			}
		},
	},
	{
		name:   "does not notice that a lock was destroyed",
		cases:  "Loss/Destroyed Loss/DestroyedOfMany Release/AfterDestroy Downgrade/Lost HandOver/Lost HandOver/Shared",
		driver: unnoticed(func(*driver.Claim) bool { return true }),
	},
	{
		name:  "one lock destroyed, all lost",
		cases: "Loss/DestroyedOfMany",
		driver: bend(bent{renew: func(next whole, ctx context.Context, claims []*driver.Claim, report report) {
			gone := false
			next.Renew(ctx, claims, func(c *driver.Claim, until driver.Instant, err error) {
				gone = gone || errors.Is(err, driver.ErrGone)
				report(c, until, err)
			})
			if gone {
				for _, c := range claims {
					c.Lost(driver.ErrGone)
				}
			}
		}}),
	},
	{
		name:  "a failed renewal counts as lost",
		cases: "Outage/HolderKeeps Outage/HolderSurvivesCut",
		driver: bend(bent{
			traits: func(t *driver.Traits) { t.Check = 20 * time.Millisecond },
			renew: renewed(func(_ driver.Instant, _ *driver.Claim, until driver.Instant, err error) (driver.Instant, error) {
				if err != nil {
					err = driver.ErrGone
				}
				return until, err
			}),
		}),
	},
	{
		name: "abandons nothing",
		cases: `Ghosts/CancelledWaiter Ghosts/CancelledInFront Ghosts/CancelledAtRandom Ghosts/CancelledWhenGranted
			Ghosts/DeadlineInFlight Ghosts/ReplyLost Ghosts/ReplyLostOfTry Ghosts/CleaningFails
			Ghosts/ServerRestarts Ghosts/ClosedWhileWaiting Litter/Contention Close/InTheMiddle HandOver/Waiters`,
		driver: bend(bent{
			abandon: func(whole, context.Context, *driver.Claim) error { return nil },
			acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				// A request that was sent is not taken back.
				return aside(ctx, func() (driver.Grant, error) { return next.Acquire(context.WithoutCancel(ctx), c) })
			},
		}),
	},
	{
		name:  "abandons once",
		cases: "Ghosts/CleaningFails",
		driver: bend(bent{abandon: func(next whole, ctx context.Context, c *driver.Claim) error {
			_ = next.Abandon(ctx, c)
			return nil
		}}),
	},
	{
		name:   "giving up wakes nobody",
		cases:  "Ghosts/CancelledBetween",
		driver: wakesNobody,
	},
	{
		name:  "ten may wait at once",
		cases: "Many/NamesWaitedAtOnce",
		driver: func() func(whole) *bent {
			return func(whole) *bent {
				slots := make(chan struct{}, 10)
				return &bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
					select {
					case slots <- struct{}{}:
					case <-ctx.Done():
						return driver.Grant{}, ctx.Err()
					}
					defer func() { <-slots }()
					return next.Acquire(ctx, c)
				}}
			}
		},
	},
	{
		name:  "a try that fails stays in the queue",
		cases: "Ghosts/FailedTries",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			g, err := next.Acquire(ctx, c)
			if errors.Is(err, driver.ErrTaken) {
				ghost := *c
				ghost.Wait = true
				ghost.ID += "?"
				go func() { _, _ = next.Acquire(context.Background(), &ghost) }()
			}
			return g, err
		}}),
	},
	{
		name: "releases nothing",
		cases: `Release/FreesForAll Release/AcquireContextEnded Release/EndedContext Release/OtherGoroutine
			Release/ManyAtOnce Release/OnlyItsName Litter/ClosedLockers Close/ReleasesHeld Fair/NobodyStarves`,
		driver: bend(bent{release: func(whole, context.Context, *driver.Claim) error { return nil }}),
	},
	{
		name:   "waiters poll",
		cases:  "Cheap/IdleWaiters Fair/TryDoesNotOvertake Shared/ExclusiveDoesNotStarve Permits/BigDoesNotStarve",
		driver: bend(bent{acquire: polling(30 * time.Millisecond)}),
	},
	{
		name:   "waiters poll now and then",
		cases:  "Fair/NoBarging",
		driver: bend(bent{acquire: polling(300 * time.Millisecond)}),
	},
	{
		name:   "waiters poll slowly",
		cases:  "Cheap/WokenByTheServer",
		driver: bend(bent{acquire: polling(time.Second)}),
	},
	{
		name:  "whoever comes behind another waiter is woken late",
		cases: "Cheap/WokenByTheServer Cheap/WokenByTheServer/shared",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			all, _ := next.Look(ctx, c.Name)
			g, err := next.Acquire(ctx, c)
			if slices.ContainsFunc(all, func(p driver.Position) bool { return !p.Held }) {
				time.Sleep(600 * time.Millisecond)
			}
			return g, err
		}}),
	},
	{
		name:   "a release wakes all waiters",
		cases:  "Cheap/NoHerd",
		driver: herd,
	},
	{
		name:   "last come, first served",
		cases:  "Fair/Lockers Fair/Shares Fair/NobodyStarves",
		driver: lifo,
	},
	{
		name:   "a waiter waits for nothing once its connection was cut",
		cases:  "Outage/WaitersGoOn Outage/CutWaiter Outage/CutAgainAndAgain",
		driver: bend(bent{acquire: onceThenNothing}),
	},
	{
		name:  "an outage is an error to those who wait",
		cases: "Outage/WaitersGoOn Outage/CutWaiter Outage/AcquireMeanwhile",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			return next.(*remote).once(ctx, c)
		}}),
	},
	{
		name:    "a waiter waits for nothing once a silent connection was closed",
		cases:   "Outage/MissedWakeUp Outage/FrozenWaiter",
		harness: closeWhenHealed,
		driver:  bend(bent{acquire: onceThenNothing}),
	},
	{
		name:   "never connects again",
		cases:  "Outage/LostAndGoesOn Outage/WorksAfterwards Outage/HolderSurvivesCut",
		driver: neverAgain,
	},
	{
		name:  "an outage means taken",
		cases: "Errors/Unreachable Errors/ServerGone",
		driver: bend(bent{acquire: granted(func(c *driver.Claim, g driver.Grant, err error) (driver.Grant, error) {
			if err != nil && !c.Wait {
				err = driver.ErrTaken
			}
			return g, err
		})}),
	},
	{
		name:  "a free name is taken now and then",
		cases: "Errors/FreeIsNotTaken",
		driver: func() func(whole) *bent {
			var n atomic.Int64
			return func(whole) *bent {
				return &bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
					if !c.Wait && n.Add(1)%20 == 0 {
						return driver.Grant{}, driver.ErrTaken
					}
					return next.Acquire(ctx, c)
				}}
			}
		},
	},
	{
		name:  "an unconfirmed release counts as done",
		cases: "Errors/ReleaseUnreachable",
		driver: bend(bent{release: func(next whole, ctx context.Context, c *driver.Claim) error {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			_ = next.Release(ctx, c)
			return nil
		}}),
	},
	{
		name:  "the owner's text breaks the request",
		cases: "Errors/Owner",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			if strings.ContainsAny(c.Owner, "\x00\n") {
				return driver.Grant{}, fmt.Errorf("bad owner %q", c.Owner)
			}
			return next.Acquire(ctx, c)
		}}),
	},
	{
		name:  "shared locks exclude each other",
		cases: "Shared/Together",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			c.Weight = driver.All
			return next.Acquire(ctx, c)
		}}),
	},
	{
		name:  "all locks are shared",
		cases: "Shared/AgainstExclusive Shared/Loss Exclusion/TryOfHeld Mixed/Exclusion",
		driver: bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
			c.Weight = 1
			return next.Acquire(ctx, c)
		}}),
	},
}

func grantAnyway(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	sent := next.(*remote).clock.Now()
	asked := *c
	asked.Wait = false
	g, err := next.Acquire(ctx, &asked)
	if errors.Is(err, driver.ErrTaken) {
		return driver.Grant{Token: 1 << 40, Until: sent.Add(c.TTL)}, nil
	}
	return g, err
}

// wakesNobody has those behind a waiter that gives up hear of their grants at the next release only.
func wakesNobody() func(whole) *bent {
	var unheard sync.Map // IDs
	var releases atomic.Int64
	return func(whole) *bent {
		return &bent{
			abandon: func(next whole, ctx context.Context, c *driver.Claim) error {
				before, behind := releases.Load(), false
				all, _ := next.Look(ctx, c.Name)
				for _, p := range all {
					if behind {
						unheard.Store(p.ID, true)
					}
					behind = behind || p.ID == c.ID && !p.Held
				}
				err := next.Abandon(ctx, c)
				if releases.Load() > before { // it may have been granted meanwhile
					unheard.Clear()
				}
				return err
			},
			acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
				g, err := next.Acquire(ctx, c)
				for is := true; is && ctx.Err() == nil; time.Sleep(time.Millisecond) {
					_, is = unheard.Load(c.ID)
				}
				return g, err
			},
			release: func(next whole, ctx context.Context, c *driver.Claim) error {
				err := next.Release(ctx, c)
				releases.Add(1)
				unheard.Clear()
				return err
			},
		}
	}
}

func onceThenNothing(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	g, err := next.(*remote).once(ctx, c)
	if err != nil && c.Wait && ctx.Err() == nil {
		<-ctx.Done()
	}
	return g, err
}

// closeWhenHealed has a link's connections closed when it heals, as it may be.
func closeWhenHealed(h *Harness) {
	open := h.OpenLink
	h.OpenLink = func(ctx context.Context, opts ...locker.Option) (locker.Locker, Link, error) {
		l, link, err := open(ctx, opts...)
		heal := link.Heal
		link.Heal = func() {
			link.Cut()
			heal()
		}
		return l, link, err
	}
}
