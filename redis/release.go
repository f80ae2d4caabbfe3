package redis

import (
	"context"
	"fmt"

	"github.com/seed80cd6120/locker/driver"
)

// Release ends the holding and makes the next in the queue the holder. If that waits in
// this Locker too the answer brings the news, and nothing has to be published.
func (b *backend) Release(ctx context.Context, c *driver.Claim) error {
	t := c.State.(*ticket)
	held, err := b.giveBack(ctx, t)
	for err == nil && held == nil || isSlow(err) {
		var own any = ""
		if b.listener.awaits(t.channel) {
			own = t.channelArg
		}
		t.unsure = t.unsure || err != nil
		script := b.scripts.release
		if own == "" && t.soon {
			script = b.scripts.handOver // another Locker is likely to wait
		}
		held, err = b.exchange(ctx, script, t, t.releaseArgs(own))
	}
	t.unsure = t.unsure || err != nil && !refused(err)
	if t.unsure {
		b.listener.rouse(t.channel) // the news may have been lost with an answer
	}
	if err != nil {
		return err
	}
	return b.released(t, held)
}

// giveBack ends the holding if nobody is known to wait, as a rule. The answer is nothing if
// the script has to.
func (b *backend) giveBack(ctx context.Context, t *ticket) (held any, err error) {
	if t.stray > 0 || b.watches(t.bucket) {
		return nil, nil
	}
	held, err = b.exchange(ctx, command{}, t, args{hdel, t.lock, t.id})
	if held == int64(0) || word(err) == "WRONGTYPE" {
		b.watch(t.bucket)
		return nil, nil
	}
	return held, err
}

// released draws the conclusions from the answer to a release.
func (b *backend) released(t *ticket, held any) error {
	b.listener.forget(t.claim.ID)
	if news, ok := held.(string); ok {
		b.listener.tell(news, handover{received: b.clock.Now(), aside: true})
		b.listener.toldAside()
		return nil
	}
	if held != int64(1) && !t.unsure {
		return driver.ErrGone
	}
	return nil
}

func (t *ticket) releaseArgs(own any) args {
	switch {
	case t.stray > 0:
		return args{nil, nil, four, t.lock, t.clockArg, t.queue(), t.gone(t.claim.ID), t.awaited(), own, t.entry(), t.strayArg(), t.drifts()}
	case own == "":
		return args{nil, nil, three, t.lock, t.clockArg, t.queue(), t.awaited()}
	}
	return args{nil, nil, three, t.lock, t.clockArg, t.queue(), t.awaited(), own}
}

// Abandon takes the claim out of the queue and passes on what it holds. Requests of it
// that may still be on their way find that it is gone, or that they are late.
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	t := c.State.(*ticket)
	if t.waiter != nil { // brought by a release, and not wanted any more
		b.listener.leave(t.waiter)
	}
	if t.touched {
		if err := b.abandon(ctx, t); err != nil {
			return err
		}
	}
	b.listener.forget(c.ID)
	return nil
}

func (b *backend) abandon(ctx context.Context, t *ticket) error {
	_, err := b.exchange(ctx, b.scripts.abandon, t, t.abandonArgs())
	if isSlow(err) {
		_, err = b.exchange(ctx, b.scripts.abandon, t, t.abandonArgs())
	}
	return err
}

func (t *ticket) abandonArgs() args {
	return args{nil, nil, four, t.lock, t.clockArg, t.queue(), t.gone(t.claim.ID), t.awaited(), t.entry(), t.strayArg(), t.drifts()}
}

// decline passes on a name that was given to a claim which has ended: the queue
// still knew it, as one does that comes back after a failover.
func (b *backend) decline(claim, key string) {
	name, ok := b.layout.nameOf(key)
	if !ok || b.life.Err() != nil {
		return
	}
	t := b.ticket(&driver.Claim{ID: claim, Name: name, Owner: b.cfg.Owner, TTL: b.cfg.TTL})
	b.working.Go(func() {
		if err := b.abandon(b.life, t); err != nil {
			b.cfg.Logger.Debug("locker: redis: passing on a name that nobody waits for",
				"name", name, "error", fmt.Errorf("abandon: %w", err))
		}
	})
}
