package file

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// Renew extends each ticket. There is no request that several could share.
func (d *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	for _, c := range claims {
		if ctx.Err() != nil {
			return
		}
		t, ok := c.State.(*ticket)
		if !ok {
			report(c, 0, driver.ErrGone)
			continue
		}
		var until driver.Instant
		var err error
		if c.Lease {
			until, err = t.update(func(*record, int64) bool { return false })
		} else {
			until, err = t.extend(c.TTL)
		}
		report(c, until, err)
		if err == nil {
			t.tellWanted(c)
		}
	}
}

// tellWanted tells the core, once, that somebody waits behind c. It looks only if tickets have come or gone.
func (t *ticket) tellWanted(c *driver.Claim) {
	info, err := os.Lstat(t.dir)
	if err != nil {
		return
	}
	t.mu.Lock()
	changed := !t.wanted && info.ModTime() != t.looked
	t.looked = info.ModTime()
	t.mu.Unlock()
	if c.Wanted == nil || !changed {
		return
	}
	all, err := t.d.list(t.dir)
	if err != nil {
		return
	}
	own := newEntry(t.dir, filepath.Base(t.path))
	for _, e := range all {
		if e.compare(own) <= 0 {
			continue
		}
		if there, err := t.d.read(&e); err == nil && there && e.record.Waits && !e.record.Held {
			t.mu.Lock()
			t.wanted = true
			t.mu.Unlock()
			c.Wanted()
			return
		}
	}
}

// Release removes the ticket of c, which is unlike any other.
func (d *backend) Release(_ context.Context, c *driver.Claim) error {
	t, ok := c.State.(*ticket)
	if !ok {
		return driver.ErrGone
	}
	return t.release()
}

// Abandon removes the ticket of c. Nothing can come of it later: Acquire has returned.
func (d *backend) Abandon(_ context.Context, c *driver.Claim) error {
	t, ok := c.State.(*ticket)
	if !ok {
		return nil
	}
	return t.remove()
}

// Lighten writes the smaller weight into the ticket.
func (d *backend) Lighten(_ context.Context, c *driver.Claim, weight int32) error {
	t, ok := c.State.(*ticket)
	if !ok {
		return driver.ErrGone
	}
	_, err := t.update(func(r *record, _ int64) bool {
		r.Weight = min(r.Weight, weight)
		return true
	})
	if err == nil {
		t.touch()
	}
	return err
}

// Linger makes the ticket of c stay in the queue for more.
func (d *backend) Linger(_ context.Context, c *driver.Claim, more time.Duration) error {
	t, ok := c.State.(*ticket)
	if !ok {
		return driver.ErrGone
	}
	return t.stay(more)
}
