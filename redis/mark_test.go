package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Who takes or gives back a name looks for a queue as long as the clock's mark says, and for
// half a minute more; who joins a queue sees to it that the mark is ahead.
func TestMark(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	ctx := context.Background()
	name := freshName(t)
	clock := plain.of(name).clock
	get := func() string { return admin.Get(ctx, clock).Val() }
	set := func(ago time.Duration) {
		t.Helper()
		now := time.Now()
		text := fmt.Sprintf("%d %d", now.UnixMicro(), now.Add(-ago).UnixMicro())
		if err := admin.Set(ctx, clock, text, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ahead := func() bool {
		text := get()
		return len(text) == 33 && text[17:] > fmt.Sprint(time.Now().Add(20*time.Second).UnixMicro())
	}

	lock := acquire(t, open(t, connect(t, r.Addr())), name)
	if text := get(); len(text) != 16 {
		t.Fatalf("clock %q before anybody waits", text)
	}
	first := wants(within(t, 60*time.Second), open(t, connect(t, r.Addr())), name)
	eventually.Is(t, "the mark is ahead", ahead)
	set(time.Second)
	second := wants(within(t, 60*time.Second), open(t, connect(t, r.Addr())), name)
	eventually.Is(t, "the mark is ahead again", ahead)
	queued(t, admin, name, 2)

	set(25 * time.Second)
	release(t, lock) // its Locker has not heard that anybody waits
	lock = first.holds(t, slack)
	if text := get(); len(text) != 33 || text[:16] != fmt.Sprint(lock.Token()) {
		t.Errorf("clock %q while somebody waits, and token %d was given", text, lock.Token())
	}
	release(t, lock)
	release(t, second.holds(t, slack))

	set(25 * time.Second)
	release(t, acquire(t, open(t, connect(t, r.Addr())), name))
	if text := get(); len(text) != 33 {
		t.Errorf("clock %q, 25 s after the mark", text)
	}
	set(31 * time.Second)
	release(t, acquire(t, open(t, connect(t, r.Addr())), name))
	if text := get(); len(text) != 16 {
		t.Errorf("clock %q, 31 s after the mark", text)
	}

	// That somebody who was given up may still join is not forgotten for another's joining.
	late := fmt.Sprint(time.Now().Add(20 * time.Second).UnixMicro())
	lock = acquire(t, open(t, connect(t, r.Addr())), name)
	admin.Set(ctx, clock, fmt.Sprintf("%d %d %s", lock.Token(), time.Now().UnixMicro(), late), 0)
	third := wants(within(t, 60*time.Second), open(t, connect(t, r.Addr())), name)
	eventually.Is(t, "the mark is ahead once more", func() bool {
		text := get()
		return len(text) == 50 && text[17:33] > late && text[34:] == late
	})
	release(t, lock)
	release(t, third.holds(t, slack))
	if text := get(); len(text) != 50 || text[34:] != late {
		t.Errorf("clock %q after a hand-over, somebody may join until %s", text, late)
	}

	odd := fmt.Sprint(time.Now().UnixMicro()) + " - not a number"
	admin.Set(ctx, clock, odd+"  ", 0)
	release(t, acquire(t, open(t, connect(t, r.Addr())), name))
}
