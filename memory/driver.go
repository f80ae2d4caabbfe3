package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// client is the driver: one process's view of the store.
type client struct {
	store *Store
	link  *Link
	clock driver.Clock // of the Locker
}

func (d *client) Traits() driver.Traits {
	return driver.Traits{
		Backend: "memory", Prompt: true, Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true,
	}
}

// Acquire goes round once more when the claim was evicted from the queue, or when its
// grant was held back until it was over.
func (d *client) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	for {
		var p *place
		var g driver.Grant
		err := d.link.request(ctx, c.Wait, func() error {
			p = d.store.enter(c, d.link)
			c.State, g = p, p.grant
			if !p.held && !c.Wait {
				return driver.ErrTaken
			}
			return nil
		})
		if err == nil && g.Token == 0 {
			select {
			case g = <-p.ready:
				err = d.link.request(ctx, true, nil)
			case <-ctx.Done():
				err = cmp.Or(d.link.request(ctx, true, nil), ctx.Err())
			}
		}
		if err != nil {
			return driver.Grant{}, err
		}
		now, offset := d.times()
		g.Until = g.Until.Add(offset)
		if g.Token != 0 && (now < g.Until || ctx.Err() != nil) {
			return g, nil
		}
	}
}

// times returns the time on the Locker's clock, and what to add to a moment of the
// store's clock to have it on that one. The Locker's is read first, so that the end of
// a holding is rather too early than too late.
func (d *client) times() (now driver.Instant, offset time.Duration) {
	now = d.clock.Now()
	return now, now.Sub(d.store.clock.Now())
}

func (d *client) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	ends := make([]driver.Instant, len(claims))
	errs := make([]error, len(claims))
	err := d.link.request(ctx, false, func() error {
		for i, c := range claims {
			p, _ := c.State.(*place)
			if !p.holds(d.store.now) {
				errs[i] = driver.ErrGone
				continue
			}
			if !c.Lease && !p.freed {
				p.grant.Until = d.store.now.Add(c.TTL)
			}
			ends[i] = p.grant.Until
		}
		return nil
	})
	_, offset := d.times()
	for i, c := range claims {
		if err := cmp.Or(err, errs[i]); err != nil {
			report(c, 0, err)
		} else {
			report(c, ends[i].Add(offset), nil)
		}
	}
}

func (d *client) Release(ctx context.Context, c *driver.Claim) error { return d.Linger(ctx, c, 0) }

func (d *client) Linger(ctx context.Context, c *driver.Claim, more time.Duration) error {
	return d.change(ctx, c, func(p *place) {
		p.freed, p.grant.Until = true, d.store.now.Add(more)
	})
}

func (d *client) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	return d.change(ctx, c, func(p *place) { p.weight = min(p.weight, weight) })
}

// change runs do if c holds its name, and settles the queue. It returns nil also when c has been released by
// an earlier request, whose reply was lost.
func (d *client) change(ctx context.Context, c *driver.Claim, do func(p *place)) error {
	return d.link.request(ctx, false, func() error {
		p, _ := c.State.(*place)
		switch {
		case p.holds(d.store.now) && !p.freed:
			do(p)
			d.store.settle(d.store.queues[c.Name])
		case p == nil || !p.freed:
			return driver.ErrGone
		}
		return nil
	})
}

func (d *client) Abandon(ctx context.Context, c *driver.Claim) error {
	return d.link.request(ctx, false, func() error {
		if p, ok := c.State.(*place); ok {
			d.store.remove(p)
		}
		return nil
	})
}

func (d *client) Look(ctx context.Context, name string) (found []driver.Position, err error) {
	err = d.link.request(ctx, false, func() error {
		found = d.store.positions(name)
		return nil
	})
	return found, err
}

func (d *client) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var names []string
		err := d.link.request(ctx, false, func() error {
			names = d.store.list(prefix)
			return nil
		})
		for _, name := range names {
			if err = cmp.Or(err, ctx.Err()); err != nil || !yield(name, nil) {
				break
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

func (d *client) Evict(ctx context.Context, name, id string) error {
	return d.link.request(ctx, false, func() error {
		places := d.store.look(name)
		i := slices.IndexFunc(places, func(p *place) bool { return p.claim.ID == id })
		if i < 0 {
			return driver.ErrGone
		}
		d.store.evict(places[i])
		return nil
	})
}

// Close has nothing to do: nothing was opened.
func (d *client) Close(context.Context) error { return nil }
