package redis

import (
	"context"

	"github.com/seed80cd6120/locker/driver"
)

// Relay is Release, and if the name goes to one that waits in this Locker, next joins the
// queue in the same request.
func (b *backend) Relay(ctx context.Context, c, next *driver.Claim, joined func()) error {
	t := c.State.(*ticket)
	if t.stray > 0 || !b.listener.listens(t.channel) {
		return b.Release(ctx, c)
	}
	n := b.ticket(next)
	// The name may come to it before this call has returned.
	n.waiter = b.listener.join(next.ID, n.channel, n.clock)
	sent := b.clock.Now()
	latest := b.times.latest(sent)
	held, err := b.exchange(ctx, b.scripts.release, t, b.relayArgs(t, n, sent, latest))
	there := err != nil && !refused(err)
	if there {
		n.touched, n.before, n.drift, n.stray = true, true, true, latest
		t.unsure = true
	}
	if text, ok := held.(string); ok {
		n.standing.sent = sent
		var news string
		if news, there = b.queued(n, &n.standing, text); there {
			held = news
		}
	}
	if there {
		joined()
	} else {
		b.listener.leave(n.waiter)
		b.listener.forget(next.ID)
		next.State = nil
	}
	switch {
	case err == nil:
		err = b.released(t, held)
	case isSlow(err):
		err = b.Release(ctx, c)
	}
	return err
}

func (b *backend) relayArgs(t, next *ticket, sent driver.Instant, latest int64) args {
	how := "join"
	if next.kept = sent; t.aside && t.kept > 0 && sent.Sub(t.kept) < seen {
		how, next.kept = "follow", t.kept
	}
	return args{nil, nil, three, t.lock, t.clockArg, t.queue(),
		t.awaited(), t.channelArg, next.entry(), latest, how}
}
