package redis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// How a holding stands on the server, with and without somebody who waits for its end.

// A lock that nobody waits for is given back by a command; one that somebody waits for is
// marked, and handed over, in no more than one request more. Operators see who holds it.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	ctx := context.Background()
	name := freshName(t)
	a, b := open(t, connect(t, r.Addr()), locker.WithOwner("first")), open(t, connect(t, r.Addr()), locker.WithOwner("second"))
	held := func(owner string, waited bool) {
		t.Helper()
		all := admin.HGetAll(ctx, lockKey(name)).Val()
		for claim, o := range all {
			if o != owner || strings.HasSuffix(claim, "+") != waited || len(strings.TrimSuffix(claim, "+")) != 32 {
				t.Errorf("held by %q of %q, want one of %q, waited for: %v", claim, o, owner, waited)
			}
		}
		if ttl := admin.PTTL(ctx, lockKey(name)).Val(); len(all) != 1 || ttl <= 0 || ttl > 15*time.Second {
			t.Errorf("%d holders, for %v", len(all), ttl)
		}
	}
	release(t, acquire(t, a, name))
	scripts := calls(t, admin, "evalsha")
	lock := acquire(t, a, name)
	held("first", false)
	release(t, lock)
	if n := calls(t, admin, "evalsha") - scripts; n != 1 {
		t.Errorf("%d scripts to take a lock and give it back", n)
	}
	nothingLeft(t, admin, name)

	// On a machine that stands still for a while a request is sent again. A PING that goes along
	// with another does not count: see TestPing.
	asked := func() int64 {
		all, err := r.Commands(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return requestsAt(t, r) - all["ping"]
	}
	least := [...]int64{1 << 10, 1 << 10, 1 << 10}
	count := func(i int, do func()) {
		before := asked()
		do()
		least[i] = min(least[i], asked()-before)
	}
	for range 5 {
		a := open(t, connect(t, r.Addr()), locker.WithOwner("first")) // which has not heard of anybody who waits
		admin.Del(context.Background(), plain.of(name).clock)
		lock = acquire(t, a, name)
		w := wants(within(t, 60*time.Second), b, name)
		queued(t, admin, name, 1)
		held("first", true)
		count(0, func() { release(t, lock) })
		lock = w.holds(t, slack)
		held("second", true)
		count(1, func() { release(t, lock) })
		count(2, func() { lock = acquire(t, a, name) })
		release(t, lock)
		nothingLeft(t, admin, name)
	}
	if least != [...]int64{2, 1, 1} {
		t.Errorf("%d requests to hand a lock over unheard, to release one that was handed over, to take one that was waited for; want 2, 1, 1", least)
	}
}

// A request for a free name that comes too late does not take it.
func TestTooOldForAFreeName(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	b := &taped{backend: opened(t, connect(t, r.Addr()))}
	c := claim(freshName(t), time.Minute, false)
	words := request(b.backend, b.ticket(c))
	words[8] = micros(b.clock.Now()) + b.times.ahead.Load() - 1
	if v := b.replay(t, words); v != int64(-2) {
		t.Errorf("the server answered %v", v)
	}
	nothingLeft(t, connect(t, r.Addr()), c.Name)
}

// Who finds the name free with others waiting behind it hands it over to them, although it
// was not told of them.
func TestGivenBackAfterTheDead(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	ctx := context.Background()
	name := freshName(t)
	admin.HSet(ctx, lockKey(name), deadClaim, "dead")
	b := opened(t, connect(t, r.Addr()))
	first, a, err := asks(t, b, claim(name, time.Minute, true))
	if err != nil || !a.queued {
		t.Fatal(a, err)
	}
	w := wants(within(t, 60*time.Second), open(t, admin), name)
	queued(t, admin, name, 2)
	admin.Del(ctx, lockKey(name))
	if a, err = b.ask(within(t, 20*time.Second), first, wait); err != nil || a.token == 0 {
		t.Fatalf("answer %+v, %v to the first in the queue of a free name", a, err)
	}
	b.layout.of(name).looks.Store(0) // as one that has not heard of anybody who waits
	if err := b.Release(within(t, 20*time.Second), first.claim); err != nil {
		t.Fatal(err)
	}
	if n := admin.Exists(ctx, queueKey(name)).Val(); n != 0 {
		t.Error("the second is still in the queue")
	}
	release(t, w.holds(t, slack))
}

// A key of a lock that somebody has put something else into is nobody's lock: its holder has
// lost it, those of others are renewed all the same, and it is left alone.
func TestForeignKeyWhileHeld(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	ctx := within(t, 20*time.Second)
	b := opened(t, connect(t, r.Addr()))
	var claims []*driver.Claim
	for range 3 {
		c := claim(freshName(t), time.Minute, false)
		if _, err := b.Acquire(ctx, c); err != nil {
			t.Fatal(err)
		}
		claims = append(claims, c)
	}
	lost := lockKey(claims[1].Name)
	admin.Set(ctx, lost, "precious", 0)
	gone, renewed := 0, 0
	b.Renew(ctx, claims, func(c *driver.Claim, _ driver.Instant, err error) {
		switch {
		case c == claims[1] && errors.Is(err, driver.ErrGone):
			gone++
		case c != claims[1] && err == nil:
			renewed++
		default:
			t.Errorf("%s: %v", c.Name, err)
		}
	})
	if gone != 1 || renewed != 2 {
		t.Errorf("%d lost and %d renewed, want 1 and 2", gone, renewed)
	}
	for range 2 { // the second time it knows that somebody may wait
		if err := b.Release(ctx, claims[1]); !errors.Is(err, driver.ErrGone) {
			t.Errorf("release: %v", err)
		}
	}
	if err := b.Abandon(ctx, claims[1]); err != nil {
		t.Error(err)
	}
	if v := admin.Get(ctx, lost).Val(); v != "precious" {
		t.Errorf("the other's data is now %q", v)
	}
	for _, c := range []*driver.Claim{claims[0], claims[2]} {
		if err := b.Release(ctx, c); err != nil {
			t.Error(err)
		}
	}
	admin.Del(ctx, lost)
}

// A user who may not set a time to live takes nothing, since it would be taken forever; one
// who may not look does not learn that the lock was lost, but that it may not; one who may
// not give back is told so.
func TestHolderWithoutPermission(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	ctx := within(t, 60*time.Second)
	b := opened(t, connectAs(t, admin, r.Addr(), "u", "-pexpire"))
	c := claim(freshName(t), time.Minute, false)
	allow := func(rules ...string) {
		t.Helper()
		if err := admin.ACLSetUser(ctx, "u", rules...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	denied := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "can't run this command") && word(err) != "NOPERM" {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := b.Acquire(ctx, c)
	denied("acquire", err)
	nothingLeft(t, admin, c.Name)
	allow("+pexpire")
	if _, err := b.Acquire(ctx, c); err != nil {
		t.Fatal(err)
	}
	allow("-hexists")
	b.Renew(ctx, []*driver.Claim{c}, func(_ *driver.Claim, _ driver.Instant, err error) {
		denied("renew", err)
	})
	allow("-hdel")
	denied("release", b.Release(ctx, c))
	b.watch(b.layout.of(c.Name))
	denied("release by the script", b.Release(ctx, c))
	denied("abandon", b.Abandon(ctx, c))
	allow("+hdel")
	if err := b.Abandon(ctx, c); err != nil {
		t.Error(err)
	}
	eventually.Is(t, "nothing left", func() bool { return admin.Exists(ctx, lockKey(c.Name)).Val() == 0 })
}

// connectAs returns a client of a user who may do everything, but for the rules.
func connectAs(t *testing.T, admin *goredis.Client, addr, user string, rules ...string) *goredis.Client {
	t.Helper()
	rules = append([]string{"on", ">pw", "~*", "&*", "+@all"}, rules...)
	if err := admin.ACLSetUser(context.Background(), user, rules...).Err(); err != nil {
		t.Fatal(err)
	}
	o := options(addr)
	o.Username, o.Password = user, "pw"
	return closing(t, goredis.NewClient(o))
}

// A lock that was deleted by hand is lost to its holder, also if the next waits in the same
// Locker: that one has it.
func TestLostToOnesOwn(t *testing.T) {
	t.Parallel()
	r := relays(t, servers.SharedRedis(t))
	r.admin.Del(context.Background(), lockKey(r.name))
	if err := r.Release(within(t, 20*time.Second), r.first); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: %v", err)
	}
	r.holds(r.waits)
	r.left(r.second)
}

// Who finds a name free for which others wait comes after them.
func TestNewcomerComesLast(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	name := freshName(t)
	lock := acquire(t, open(t, admin), name)
	w := wants(within(t, 60*time.Second), open(t, admin), name)
	queued(t, admin, name, 1)
	admin.Del(context.Background(), lockKey(name))
	b := opened(t, connect(t, r.Addr()))
	tk := b.ticket(claim(name, time.Minute, false))
	if a, err := b.ask(within(t, 20*time.Second), tk, dontWait); err != nil || a.token != 0 {
		t.Errorf("answer %+v, %v to a newcomer", a, err)
	}
	release(t, w.holds(t, slack))
	<-lock.Context().Done()
}
