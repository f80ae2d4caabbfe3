package memory

import (
	"context"

	"github.com/seed80cd6120/locker/driver"
)

// client is the driver: one process's view of the store.
type client struct {
	store *Store
	link  *Link
	clock driver.Clock // of the Locker
	same  bool         // as that of the store
}

func (d *client) Traits() driver.Traits {
	return driver.Traits{Backend: "memory", Fair: true, Fenced: true, Shared: true, Prompt: true, Permits: false}
}

func (d *client) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	var p *place
	granted := false
	err := d.link.request(ctx, c.Wait, func() {
		p = d.store.enter(c, d.link)
		c.State = p
		if granted = p.held; !granted && !c.Wait {
			d.store.remove(p)
		}
	})
	switch {
	case err != nil:
		return driver.Grant{}, err
	case granted:
		return d.granted(p), nil
	case !c.Wait:
		return driver.Grant{}, driver.ErrTaken
	}
	select {
	case <-p.ready:
		if err := d.link.reply(ctx, true); err != nil {
			return driver.Grant{}, err
		}
		return d.granted(p), nil
	case <-ctx.Done():
		d.store.giveUp(p)
		return driver.Grant{}, ctx.Err()
	}
}

func (d *client) granted(p *place) driver.Grant {
	return driver.Grant{Token: p.token, Until: d.until(p.until)}
}

// until carries the end of a lease over to the clock of the Locker. That clock is
// read first, so that the time between the two looks makes the answer too early
// rather than too late.
func (d *client) until(end driver.Instant) driver.Instant {
	if d.same {
		return end
	}
	now := d.clock.Now()
	return now.Add(end.Sub(d.store.clock.Now()))
}

func (d *client) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	ends := make([]driver.Instant, len(claims))
	held := make([]bool, len(claims))
	err := d.link.request(ctx, false, func() {
		now := d.store.clock.Now()
		for i, c := range claims {
			if p, ok := c.State.(*place); ok && p.held && now < p.until {
				p.until = now.Add(c.TTL)
				ends[i], held[i] = p.until, true
			}
		}
	})
	for i, c := range claims {
		switch {
		case err != nil:
			report(c, 0, err)
		case held[i]:
			report(c, d.until(ends[i]), nil)
		default:
			report(c, 0, driver.ErrGone)
		}
	}
}

func (d *client) Release(ctx context.Context, c *driver.Claim) error {
	held := false
	err := d.link.request(ctx, false, func() { held = d.take(c) })
	switch {
	case err != nil:
		return err
	case !held:
		return driver.ErrGone
	}
	return nil
}

func (d *client) Abandon(ctx context.Context, c *driver.Claim) error {
	return d.link.request(ctx, false, func() { d.take(c) })
}

func (d *client) take(c *driver.Claim) (held bool) {
	p, ok := c.State.(*place)
	return ok && d.store.remove(p)
}

// Close has nothing to do: nothing was opened.
func (d *client) Close(context.Context) error { return nil }
