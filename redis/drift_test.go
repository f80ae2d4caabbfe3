package redis

import (
	"bytes"
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

// What comes of joining a queue by a command, which can look at nothing, when its answer is
// lost or it arrives late.

// The time of a holding begins no later than at the server: when it was asked, if that is all
// that is known, and later if the server has said what time it was then.
func TestHandedOverUntil(t *testing.T) {
	t.Parallel()
	b := opened(t, connect(t, "127.0.0.1:1"))
	tk := b.ticket(claim(freshName(t), time.Minute, true))
	now := b.clock.Now()
	sent := now.Add(-2 * time.Second)
	h := handover{token: 1, at: 5_000_000, received: now}
	for what, c := range map[string]struct {
		now  int64
		from driver.Instant
	}{
		"nothing is known":             {0, sent},
		"it was a second later":        {4_000_000, sent.Add(time.Second)},
		"later than when it was heard": {1_000_000, now},
	} {
		g, ok := b.handedOver(tk, answer{queued: true, sent: sent, now: c.now}, h)
		if !ok || g.Until != c.from.Add(time.Minute) {
			t.Errorf("%s: %v, held from %v after it was asked, want %v", what, ok, g.Until.Sub(sent)-time.Minute, c.from.Sub(sent))
		}
	}
	if _, ok := b.handedOver(tk, answer{queued: true, sent: sent, now: h.at + 1}, h); ok {
		t.Error("a message from before the last answer makes a holder")
	}
}

// drifting is a claim whose request to join a queue that moves had no answer.
func drifting(t *testing.T, b *backend, p *proxy.Proxy, name string) *ticket {
	t.Helper()
	swift(b, name)
	tk := b.ticket(claim(name, time.Minute, true))
	join := func(request []byte) bool { return bytes.Contains(request, []byte("rpushx")) }
	p.SwallowReply(join, 0)
	a, again, err := b.askOnce(within(t, 20*time.Second), tk, wait)
	if err == nil || again || a.queued || !tk.touched || !tk.before || tk.stray == 0 || !tk.drift {
		t.Fatalf("answer %+v, %v, %v to a request without an answer; the claim is %+v", a, again, err, tk)
	}
	return tk
}

// arrive sends the request of a claim that joins a queue which moves once more, as a
// network does that delivers it late.
func arrive(t *testing.T, admin *goredis.Client, tk *ticket) {
	t.Helper()
	if err := admin.Do(context.Background(), tk.joinArgs()...).Err(); err != nil {
		t.Fatal(err)
	}
}

// What joins a queue that moves is in it once, also if it had no answer and was asked again,
// and is nowhere after it has been given up.
func TestJoinMovingWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	b, name := busy(t, admin, connect(t, p.Addr()))
	isThird(t, admin, b, drifting(t, b, p, name))
}

// What joins a queue that moves never gets the name if it arrives after the claim was given
// up, or after it has had the name: those behind it are served, and with the last of them it
// is gone. (What arrives even later is declined: TestHandOverToAClaimThatIsOver.)
func TestJoinMovingLate(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	p := front(t, r.Addr())
	ctx := context.Background()
	end := map[string]func(b *backend, tk *ticket) error{
		"given up": func(b *backend, tk *ticket) error { return b.Abandon(within(t, 20*time.Second), tk.claim) },
		"released": func(b *backend, tk *ticket) error {
			g, err := b.Acquire(within(t, 20*time.Second), tk.claim)
			if err != nil {
				return err
			}
			if late := b.clock.Now().Add(time.Minute); g.Until > late {
				t.Errorf("held until %v after the end of its time", g.Until.Sub(late))
			}
			return b.Release(within(t, 20*time.Second), tk.claim)
		},
	}
	for what, end := range end {
		b := opened(t, connect(t, p.Addr()))
		name := freshName(t)
		lock := acquire(t, open(t, admin), name)
		first := wants(within(t, 60*time.Second), open(t, admin), name)
		queued(t, admin, name, 1)
		tk := drifting(t, b, p, name)
		queued(t, admin, name, 2)
		if what == "released" {
			release(t, lock)
			lock = nil
			release(t, first.holds(t, slack))
		}
		tk.stray -= (2 * time.Second).Microseconds() // as if that had taken some time
		if err := end(b, tk); err != nil {
			t.Fatal(what, err)
		}
		if lock == nil {
			lock = acquire(t, open(t, admin), name)
			first = wants(within(t, 60*time.Second), open(t, admin), name)
			queued(t, admin, name, 1)
		}
		news := admin.Subscribe(ctx, tk.channel) // its process still listens
		if _, err := news.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		arrive(t, admin, tk)
		arrive(t, admin, tk)
		second := wants(within(t, 60*time.Second), open(t, admin), name)
		queued(t, admin, name, 4)

		release(t, lock)
		release(t, first.holds(t, slack))
		release(t, second.holds(t, slack))
		nothingLeft(t, admin, name)
		admin.Publish(ctx, tk.channel, "the end")
		if m, err := news.ReceiveMessage(ctx); err != nil || m.Payload != "the end" {
			t.Errorf("%s: it was told %v, %v", what, m, err)
		}
		if err := news.Close(); err != nil {
			t.Error(err)
		}
		if ttl := admin.PTTL(ctx, tk.gone(tk.claim.ID)).Val(); ttl < 20*time.Second || ttl > time.Minute {
			t.Errorf("%s: that it was is remembered for %v", what, ttl)
		}
	}
}
