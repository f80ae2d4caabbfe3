package redis

import (
	"context"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A Locker joins a queue without a look at the holder if, last time, several were before
// it and it was served at once.
func TestMoves(t *testing.T) {
	const now = driver.Instant(time.Hour)
	served := func(ahead int64, waited time.Duration) *bucket {
		b := newLayout(DefaultPrefix, "", false).of("a")
		b.joined("a", ahead, now)
		b.got("a", waited, now)
		return b
	}
	again := func(b *bucket, name string, ahead int64) *bucket {
		b.joined(name, ahead, now)
		return b
	}
	for what, c := range map[string]struct {
		b     *bucket
		after time.Duration
		moves bool
	}{
		"at once":              {served(several, moment/2), 0, true},
		"soon":                 {served(several, moment/2), recent - 1, true},
		"later":                {served(several, moment/2), recent, false},
		"a long wait":          {served(several, moment), 0, false},
		"few were before it":   {served(several-1, moment/2), 0, false},
		"not served yet":       {again(newLayout(DefaultPrefix, "", false).of("a"), "a", several), 0, false},
		"still many":           {again(served(several, moment/2), "a", several), 0, true},
		"few now":              {again(served(several, moment/2), "a", several-1), 0, false},
		"another name":         {again(served(several, moment/2), "b", several), 0, false},
		"another name's few":   {again(served(several, moment/2), "b", 0), 0, true},
		"looked long ago":      {func() *bucket { b := served(several, moment/2); b.got("a", 0, now.Add(seen)); return b }(), seen, false},
		"looked not long ago":  {func() *bucket { b := served(several, moment/2); b.got("a", 0, now.Add(seen-1)); return b }(), seen - 1, true},
		"nothing is known yet": {newLayout(DefaultPrefix, "", false).of("a"), 0, false},
	} {
		if got := c.b.moves("a", now.Add(c.after)); got != c.moves {
			t.Errorf("%s: moves %v", what, got)
		}
	}
}

// busy is a name that is held and for which two wait, and a driver to which its queue seems
// to move. The server knows the scripts.
func busy(t *testing.T, admin *goredis.Client, client goredis.UniversalClient) (b *backend, name string) {
	t.Helper()
	name = freshName(t)
	acquire(t, open(t, admin), name)
	for i := range int64(2) {
		wants(within(t, 60*time.Second), open(t, admin), name)
		queued(t, admin, name, i+1)
	}
	b = opened(t, client)
	swift(b, name)
	tk, a, err := asks(t, b, claim(name, time.Minute, true))
	if err != nil || !a.queued {
		t.Fatal(a, err)
	}
	if err := b.Abandon(within(t, 20*time.Second), tk.claim); err != nil {
		t.Fatal(err)
	}
	return b, name
}

func swift(b *backend, name string) {
	bucket := b.layout.of(name)
	bucket.joined(name, several, b.clock.Now())
	bucket.got(name, 0, b.clock.Now())
}

// asks joins the queue of a name as a waiter does.
func asks(t *testing.T, b *backend, c *driver.Claim) (*ticket, answer, error) {
	t.Helper()
	tk := b.ticket(c)
	a, err := b.ask(within(t, 20*time.Second), tk, wait)
	return tk, a, err
}

// Names that share a bucket with one whose queue moves have a lock and a queue of their own.
func TestMovesBesideAnother(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	b, name := busy(t, admin, connect(t, r.Addr()))
	swift(b, name)
	twin := twinOf(name)
	if tk, a, err := asks(t, b, claim(twin, time.Minute, false)); err != nil || a.token == 0 {
		t.Fatal(a, err)
	} else if held := admin.HGet(context.Background(), lockKey(twin), tk.claim.ID).Val(); held != "test" {
		t.Errorf("the lock of the other name says %q", held)
	}
	if tk, a, err := asks(t, b, claim(twin, time.Minute, true)); err != nil || !a.queued {
		t.Fatal(a, err)
	} else if all := admin.LRange(context.Background(), queueKey(twin), 0, -1).Val(); len(all) != 1 || all[0] != tk.entry() {
		t.Errorf("the queue of the other name is %q, want %q", all, tk.entry())
	}
}

// Joining a queue that moves is one request, and it is the same place as with any other.
func TestJoinMoving(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	b, name := busy(t, admin, connect(t, r.Addr()))
	joined, before := calls(t, admin, "rpushx"), requestsAt(t, r)
	tk, a, err := asks(t, b, claim(name, time.Minute, true))
	if err != nil || !a.queued || a.nextLook() > time.Second {
		t.Fatalf("answer %+v, %v; next look in %v", a, err, a.nextLook())
	}
	if n := requestsAt(t, r) - before; n != 1 {
		t.Errorf("%d requests", n)
	}
	all := admin.LRange(context.Background(), queueKey(name), 0, -1).Val()
	if len(all) != 3 || all[2] != tk.entry() {
		t.Errorf("the queue is %q, want %q at its end", all, tk.entry())
	}
	if n := calls(t, admin, "rpushx") - joined; n != 1 {
		t.Errorf("%d times RPUSHX", n)
	}
	if ttl := admin.PTTL(context.Background(), queueKey(name)).Val(); ttl < 30*time.Second {
		t.Errorf("the queue is kept for %v", ttl)
	}
	isThird(t, admin, b, tk)
}

// isThird makes sure that the claim has joined behind two others, once: when it asks again
// it looks as usual, and is where it was; when it is given up it is gone.
func isThird(t *testing.T, admin *goredis.Client, b *backend, tk *ticket) {
	t.Helper()
	queued(t, admin, tk.claim.Name, 3)
	a, err := b.ask(within(t, 20*time.Second), tk, wait)
	if err != nil || !a.queued || a.ahead != 2 || a.left <= 0 {
		t.Errorf("answer %+v, %v to one who asks again", a, err)
	}
	queued(t, admin, tk.claim.Name, 3)
	if err := b.Abandon(within(t, 20*time.Second), tk.claim); err != nil {
		t.Fatal(err)
	}
	queued(t, admin, tk.claim.Name, 2)
}

// A queue that seemed to move, and in which nobody waits any more, is not joined: the claim
// takes the name, or waits and knows for how long.
func TestJoinMovedOn(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	b := opened(t, connect(t, r.Addr()))
	name := freshName(t)
	swift(b, name)
	first, a, err := asks(t, b, claim(name, time.Minute, true))
	if err != nil || a.token == 0 {
		t.Fatalf("answer %+v, %v to one who asks for a free name", a, err)
	}
	swift(b, name)
	second, a, err := asks(t, b, claim(name, time.Minute, true))
	if err != nil || !a.queued || a.ahead != 0 || a.left < 50*time.Second {
		t.Fatalf("answer %+v, %v to one who is the first to wait", a, err)
	}
	if b.layout.of(name).moves(name, b.clock.Now()) {
		t.Error("the queue still seems to move")
	}
	for _, tk := range []*ticket{second, first} {
		if err := b.Abandon(within(t, 20*time.Second), tk.claim); err != nil {
			t.Fatal(err)
		}
	}
	nothingLeft(t, admin, name)
}

// What a process that is dead has left in a queue.
const (
	deadClaim = "dddddddddddddddddddddddddddddddd+"
	deadEntry = "locker:wake:dead 60000 " + deadClaim + " dead"
)

// Who has joined without a look, and is not served soon because the holder and all who
// waited are dead, looks, and has the name within a second of its being free.
func TestJoinMovingAmongTheDead(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	name := freshName(t)
	ctx := context.Background()
	const ttl = 1500 * time.Millisecond
	admin.HSet(ctx, lockKey(name), deadClaim, "dead")
	admin.PExpire(ctx, lockKey(name), ttl)
	expires := time.Now().Add(ttl)
	for range 2 {
		admin.RPush(ctx, queueKey(name), deadEntry)
	}
	b := opened(t, connect(t, r.Addr()))
	c := claim(name, time.Minute, true)
	tk := b.ticket(c)
	w := b.listener.join(c.ID, tk.channel, tk.clock) // so that the subscription is there
	if _, err := b.listener.ready(within(t, 20*time.Second), w); err != nil {
		t.Fatal(err)
	}
	b.listener.leave(w)
	swift(b, name)
	if _, err := b.Acquire(within(t, 20*time.Second), c); err != nil {
		t.Fatal(err)
	}
	if late := time.Since(expires); late > time.Second+slack {
		t.Errorf("%v after the name was free", late)
	}
	if !tk.before {
		t.Error("it did not join")
	}
	if err := b.Release(within(t, 20*time.Second), c); err != nil {
		t.Error(err)
	}
}

// Who had to look again while it waited has not waited for a moment only, however short the
// time after the last look.
func TestLongWaitDoesNotMove(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	name := freshName(t)
	ctx := within(t, 60*time.Second)
	lock := acquire(t, open(t, admin), name)
	for range several {
		admin.RPush(ctx, queueKey(name), deadEntry)
	}
	b := opened(t, connect(t, r.Addr()))
	c := claim(name, time.Minute, true)
	answers := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, c)
		answers <- err
	}()
	bucket := b.layout.of(name)
	eventually.Is(t, "it waits", func() bool { return bucket.moving.Load() != nil })
	first := bucket.moving.Load().seen
	eventually.Is(t, "it has looked again", func() bool {
		if b.clock.Now().Sub(first) > 2*moment {
			b.listener.rouse(bucket.channel)
		}
		return bucket.moving.Load().seen.Sub(first) > 2*moment
	})
	release(t, lock)
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
	if bucket.moves(name, b.clock.Now()) {
		t.Error("the queue seems to move")
	}
	if err := b.Release(ctx, c); err != nil {
		t.Error(err)
	}
}

// Where many take turns most of them join so, nobody is inside twice, and tokens rise.
func TestManyTakeTurns(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	name := freshName(t)
	const clients, turns = 8, 50
	ctx := within(t, 60*time.Second)
	var inside sync.Mutex
	var last int64
	var wg sync.WaitGroup
	for range clients {
		l := open(t, connect(t, r.Addr()))
		wg.Go(func() {
			for range turns {
				lock, err := l.Acquire(ctx, name)
				if err != nil {
					t.Error(err)
					return
				}
				if !inside.TryLock() {
					t.Error("two inside")
					return
				}
				if lock.Token() <= last {
					t.Errorf("token %d after %d", lock.Token(), last)
				}
				last = lock.Token()
				inside.Unlock()
				if err := lock.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := calls(t, admin, "rpushx"); n < clients*turns/4 {
		t.Errorf("%d of %d joined a queue that moves", n, clients*turns)
	}
	nothingLeft(t, admin, name)
}
