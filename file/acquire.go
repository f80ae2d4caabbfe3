package file

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

const (
	// lookInterval is how often a waiter looks that cannot be woken.
	lookInterval = 100 * time.Millisecond

	// secondLook is when a waiter looks again that was woken in vain: the kernel tells that a dying process has closed
	// its ticket just before it drops the flock.
	secondLook = 20 * time.Millisecond

	// fallbackInterval is how often a waiter looks at least: the one that it waits for may be granted the name, and be stopped.
	fallbackInterval = time.Minute

	// mostLooks is how often a try looks at another that has not decided yet, a millisecond apart.
	mostLooks = 100
)

// Acquire queues anew if the ticket was removed, or its time was over because this process was stopped.
func (d *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	d.startSweeping()
	for {
		g, err := d.acquire(ctx, c)
		if err == nil || ctx.Err() != nil || !errors.Is(err, driver.ErrGone) && !errors.Is(err, errBusy) {
			return g, err
		}
		if t, ok := c.State.(*ticket); ok {
			if err := t.remove(); err != nil {
				return g, err
			}
		}
	}
}

func (d *backend) acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	if !c.Wait { // a ticket that will not do would for a moment be in the way of others
		if err := taken(func() ([]entry, error) { return d.look(c) }); err != nil {
			return driver.Grant{}, err
		}
	}
	t, err := d.newTicket(c)
	if err != nil {
		return driver.Grant{}, err
	}
	c.State = t
	if err := t.place(); err != nil {
		return driver.Grant{}, err
	}
	if c.Wait {
		var blockers []entry
		if blockers, err = t.blockers(); err == nil && len(blockers) > 0 {
			err = t.wait(ctx, blockers)
		}
	} else if err = taken(t.blockers); errors.Is(err, driver.ErrTaken) {
		err = cmp.Or(t.remove(), err)
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return t.grant(c)
}

// taken returns driver.ErrTaken if a claim that does not wait has blockers. One that neither holds nor waits yet may be
// another try that is about to give up: it has some time to decide.
func taken(blockers func() ([]entry, error)) error {
	for looks := 1; ; looks++ {
		found, err := blockers()
		if err != nil || len(found) == 0 {
			return err
		}
		undecided := func(e entry) bool { return e.known && !e.record.Held && !e.record.Waits }
		if looks == mostLooks || !slices.ContainsFunc(found, undecided) {
			return driver.ErrTaken
		}
		time.Sleep(time.Millisecond)
	}
}

// look returns those of whom one has to change before c is granted at the end of the queue.
func (d *backend) look(c *driver.Claim) ([]entry, error) {
	all, err := d.list(d.queue(c.Name))
	if err != nil {
		return nil, err
	}
	return d.blockers(all, c.Weight, c.Limit)
}

// blockers returns those of whom one has to change before t is granted; none if it may be.
func (t *ticket) blockers() ([]entry, error) {
	all, err := t.d.list(t.dir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(e entry) bool { return e.path == t.path })
	if i < 0 {
		return nil, driver.ErrGone
	}
	return t.d.blockers(all[:i], t.record.Weight, t.record.Limit)
}

// wait returns nil when nobody is in the way any more.
func (t *ticket) wait(ctx context.Context, blockers []entry) error {
	watch := t.d.watch.subscribe()
	defer watch.clear()
	timer := time.NewTimer(t.d.ttl)
	defer timer.Stop()
	// From now on it does not move any more, and is shown.
	if _, err := t.update(func(r *record, now int64) bool {
		r.Waits, r.Until = true, now+int64(t.d.ttl)
		return true
	}); err != nil {
		return err
	}
	woken, due := false, false
	for {
		// First watch, then look whether there is still something to wait for.
		watch.clear()
		watched := watch.add(t.path)
		for _, e := range blockers {
			watched = watch.add(e.path) && watched
		}
		if _, err := t.extend(t.d.ttl); err != nil {
			return err
		}
		pause, changed, err := t.recheck(blockers)
		if changed, due = changed || due, false; err == nil && changed {
			blockers, err = t.blockers()
		}
		switch {
		case err != nil || len(blockers) == 0:
			return err
		case changed:
			continue
		case woken:
			pause = min(pause, secondLook)
		case !watched:
			pause = min(pause, lookInterval)
		}
		timer.Reset(pause)
		woken = false
		select {
		case <-watch.changed:
			woken = true
		case <-timer.C:
			due = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// recheck reports whether one of the blockers has changed, and how long to wait if not: until the own ticket has to be
// extended, a blocker's time is over, or the fallback interval is.
func (t *ticket) recheck(blockers []entry) (pause time.Duration, changed bool, err error) {
	pause = min(t.d.ttl/3, fallbackInterval)
	for _, was := range blockers {
		e := newEntry(t.dir, filepath.Base(was.path))
		there, err := t.d.read(&e)
		if err != nil || !there || e.weight != was.weight || e.record.Held != was.record.Held {
			return 0, true, err
		}
		if e.record.Until > 0 {
			pause = min(pause, time.Duration(e.record.Until-now())+time.Millisecond)
		}
	}
	return max(pause, time.Millisecond), false, nil
}

// grant makes t a holder. What it returns is good from a moment on at which t was certainly in the queue.
func (t *ticket) grant(c *driver.Claim) (driver.Grant, error) {
	token, spare, err := t.d.tokens.take(c.Spare)
	if err != nil {
		return driver.Grant{}, err
	}
	until, err := t.update(func(r *record, now int64) bool {
		r.Held, r.Token, r.Since, r.Until = true, token, time.Now().UnixNano(), now+int64(c.TTL)
		return true
	})
	if err != nil {
		return driver.Grant{}, err
	}
	if c.Weight != driver.All {
		t.touch() // there may be room for the next as well
	}
	return driver.Grant{Token: token, Spare: spare, Until: until}, nil
}
