package redis

import (
	"context"
	"fmt"

	"github.com/seed80cd6120/locker/driver"
)

// Release ends the holding and makes the next in the queue the holder.
func (b *backend) Release(ctx context.Context, c *driver.Claim) error {
	t := c.State.(*ticket)
	entry := ""
	if t.stray > 0 {
		entry = t.entryIn(b)
	}
	held, err := releaseScript.run(ctx, b.client, t.keys(),
		c.ID, t.channel, b.layout.shard(), b.seen.Load(), t.stray, entry)
	if err != nil {
		return err
	}
	b.listener.forget(c.ID)
	if held != int64(1) {
		return driver.ErrGone
	}
	return nil
}

// Abandon takes the claim out of the queue and passes on what it holds. Requests of it
// that may still be on their way find that it is gone, or that they are late.
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	if err := b.abandon(ctx, c.State.(*ticket)); err != nil {
		return err
	}
	b.listener.forget(c.ID)
	return nil
}

func (b *backend) abandon(ctx context.Context, t *ticket) error {
	_, err := abandonScript.run(ctx, b.client, t.keys(), b.abandonArgs(t)...)
	return err
}

func (b *backend) abandonArgs(t *ticket) []any {
	return []any{t.claim.ID, t.channel, b.layout.shard(), b.seen.Load(), t.stray, t.entryIn(b)}
}

// decline passes on a name that was given to a claim which has ended: the queue
// still knew it, as one does that comes back after a failover.
func (b *backend) decline(claim, key string) {
	name, ok := b.layout.nameOf(key)
	if !ok || b.life.Err() != nil {
		return
	}
	t := &ticket{claim: &driver.Claim{ID: claim, Name: name}, place: b.layout.of(name)}
	b.working.Add(1)
	go func() {
		defer b.working.Done()
		if err := b.abandon(b.life, t); err != nil {
			b.cfg.Logger.Debug("locker: redis: passing on a name that nobody waits for",
				"name", name, "error", fmt.Errorf("abandon: %w", err))
		}
	}()
}
