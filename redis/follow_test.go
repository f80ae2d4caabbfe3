package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

// withNobody does something with a driver that holds a name for which nobody waits: once as
// it is, and once as if it had the name from its own Locker, and the queue had been prolonged just now.
func withNobody(t *testing.T, do func(r *relaying)) {
	for _, aside := range []bool{false, true} {
		r := relays(t, servers.SharedRedis(t))
		r.leaves()
		if aside {
			first := r.first.State.(*ticket)
			first.aside, first.kept = true, r.clock.Now()
		}
		do(r)
	}
}

// Promise 9: where somebody else comes first the release takes nobody along, and the
// order stays.
func TestOthersComeFirst(t *testing.T) {
	t.Parallel()
	withNobody(t, func(r *relaying) {
		other := wants(within(t, 20*time.Second), open(t, r.admin), r.name)
		queued(t, r.admin, r.name, 1)
		second := r.claim()
		waits := r.asks(within(t, 20*time.Second), second)
		queued(t, r.admin, r.name, 2)

		third, joined, err := r.relay()
		r.must(err)
		if joined || third.State != nil {
			t.Error("taken along, although another Locker has the name now")
		}
		lock := other.holds(t, slack)
		queued(t, r.admin, r.name, 1)
		release(t, lock)
		r.holds(waits)
		r.left(second)
	})
}

// Nobody is taken along where nobody waits, and a release says truthfully that the name was
// not held.
func TestNothingToRelay(t *testing.T) {
	t.Parallel()
	withNobody(t, func(r *relaying) {
		if _, joined, err := r.relay(); joined || err != nil {
			t.Errorf("joined %v, %v", joined, err)
		}
		if _, joined, err := r.relay(); joined || !errors.Is(err, driver.ErrGone) {
			t.Errorf("released again: joined %v, %v", joined, err)
		}
		r.left()
	})
}

// Where one of a Locker follows the other their queue is not made anew each time, but
// prolonged often enough.
func TestFollow(t *testing.T) {
	t.Parallel()
	r := relays(t, servers.NewRedis(t, servers.RedisOptions{}))
	ctx := within(t, 60*time.Second)
	holder, next, waits := r.first, r.second, r.waits
	hand := func() (followed bool) {
		before, along, joined := calls(t, r.admin, "rpushx"), r.claim(), false
		r.must(r.Relay(ctx, holder, along, func() { joined = true }))
		if !joined {
			t.Fatal("not taken along")
		}
		if ahead := along.State.(*ticket).standing.ahead; ahead != 0 {
			t.Errorf("%d seem to wait before it", ahead)
		}
		followed = calls(t, r.admin, "rpushx") > before
		if followed && along.State.(*ticket).kept != holder.State.(*ticket).kept {
			t.Error("to follow is not to prolong")
		}
		r.holds(waits)
		holder, next, waits = next, along, r.asks(ctx, along)
		queued(t, r.admin, r.name, 1)
		return followed
	}
	for i, want := range []bool{false, false, true, true} {
		if hand() != want {
			t.Errorf("%d followed: %v", i, !want)
		}
	}
	r.must(r.admin.PExpire(ctx, queueKey(r.name), 5*time.Second).Err())
	if holder.State.(*ticket).kept -= driver.Instant(seen); hand() {
		t.Error("followed, long after the queue was prolonged")
	}
	if ttl := r.admin.PTTL(ctx, queueKey(r.name)).Val(); ttl < 50*time.Second {
		t.Errorf("the queue stays for %v", ttl)
	}
	r.must(r.Release(ctx, holder))
	r.holds(waits)
	r.left(next)
}

// Of a queue of which it is not known when it was prolonged it is not taken for granted.
func TestFollowUnknown(t *testing.T) {
	t.Parallel()
	b := opened(t, connect(t, servers.SharedRedis(t).Addr()))
	one, other := b.ticket(claim(freshName(t), time.Minute, true)), b.ticket(claim(freshName(t), time.Minute, true))
	one.aside = true
	if how := b.relayArgs(one, other, driver.Instant(time.Second), 0)[10]; how != "join" {
		t.Error(how)
	}
	if other.kept != driver.Instant(time.Second) {
		t.Errorf("prolonged at %v", other.kept)
	}
}
