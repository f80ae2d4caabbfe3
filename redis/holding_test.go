package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// shared is a claim of a reader that does not wait, permits one of k of n permits.
func shared(name string) *driver.Claim { return permits(name, 1, driver.All) }

func permits(name string, k, n int32) *driver.Claim {
	c := claim(name, time.Minute, false)
	c.Weight, c.Limit = k, n
	return c
}

// asked has the claim wait for its name.
func asked(t testing.TB, b *backend, c *driver.Claim) *locktest.Acquisition[driver.Grant] {
	c.Wait = true
	return locktest.BeginClaim(within(t, 5*time.Minute), b, c)
}

// soon waits for the grant.
func soon(t testing.TB, asked *locktest.Acquisition[driver.Grant]) driver.Grant {
	t.Helper()
	return asked.Granted(t, time.Second+slack)
}

// The lock of an exclusive holder is what everybody expects: a string with a time to live.
func TestExclusiveIsAString(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	c := claim(freshName(t), 5*time.Minute, false)
	g := take(t, b, c)
	v := admin.Get(context.Background(), lockKey(c.Name)).Val()
	want := fmt.Sprintf(`^1 %s \d{16} %d %d 300000 \d{16} %d test$`, c.ID, c.Weight, c.Limit, g.Token)
	if !regexp.MustCompile(want).MatchString(v) {
		t.Errorf("the lock is %q", v)
	}
	if left := admin.PTTL(context.Background(), lockKey(c.Name)).Val(); left <= 0 || left > 5*time.Minute {
		t.Errorf("it stays for %v", left)
	}
	free(t, b, c)
	nothingLeft(t, admin, c.Name)
}

// Readers hold together, a writer alone, in the order of arrival.
func TestSharedAndExclusive(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	name := freshName(t)
	r1, r2, r3, w := shared(name), shared(name), shared(name), claim(name, time.Minute, true)
	take(t, b, r1)
	take(t, b, r2)
	writer := asked(t, b, w)
	queued(t, admin, name, 1)
	taken(t, b, shared(name)) // behind the writer
	third := asked(t, b, r3)
	queued(t, admin, name, 2)
	free(t, b, r1)
	queued(t, admin, name, 2)
	free(t, b, r2)
	g := soon(t, writer)
	queued(t, admin, name, 1)
	free(t, b, w)
	if after := soon(t, third); after.Token <= g.Token {
		t.Errorf("token %d after %d", after.Token, g.Token)
	}
	free(t, b, r3)
	nothingLeft(t, admin, name)
}

// As many hold permits as there are, and a release grants as many as fit.
func TestPermits(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	name := freshName(t)
	a, c := permits(name, 3, 5), permits(name, 2, 5)
	take(t, b, a)
	take(t, b, c)
	taken(t, b, permits(name, 1, 5))
	x, y, z := permits(name, 1, 5), permits(name, 2, 5), permits(name, 1, 5)
	gx := asked(t, b, x)
	queued(t, admin, name, 1)
	gy := asked(t, b, y)
	queued(t, admin, name, 2)
	gz := asked(t, b, z)
	queued(t, admin, name, 3)
	free(t, b, a)
	soon(t, gx)
	soon(t, gy)
	queued(t, admin, name, 1)
	taken(t, b, permits(name, 1, 5))
	free(t, b, c)
	soon(t, gz)
	last := permits(name, 1, 5)
	take(t, b, last)
	for _, held := range []*driver.Claim{x, y, z, last} {
		free(t, b, held)
	}
	nothingLeft(t, admin, name)
}

// A dead reader does not live on the renewals of others.
func TestDeadReader(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	name := freshName(t)
	dead, live := shared(name), shared(name)
	dead.TTL = time.Second
	take(t, b, dead)
	take(t, b, live)
	w := claim(name, time.Minute, true)
	inTime := locktest.Limit(t, 20*time.Second)
	writer := asked(t, b, w)
	queued(t, admin, name, 1)
	eventually.Is(t, "the dead one is gone", func() bool {
		if _, err := renewed(t, b, live); err != nil {
			t.Fatalf("the live reader lost its lock: %v", err)
		}
		all, err := b.Look(within(t, 20*time.Second), name)
		return err == nil && len(all) == 2
	})
	inTime("the end of the dead one")
	if _, err := renewed(t, b, dead); err == nil {
		t.Error("the dead reader was renewed after its end")
	}
	free(t, b, live)
	soon(t, writer)
	free(t, b, w)
}

// The first of several waiters gets the name within its TTL and a second after the holder died.
func TestDeadReaderBlocksNoWriter(t *testing.T) {
	t.Parallel()
	b := opened(t, connect(t, servers.SharedRedis(t).Addr()))
	name := freshName(t)
	for range 3 {
		dead := shared(name)
		dead.TTL = time.Second
		take(t, b, dead)
	}
	w := claim(name, time.Minute, true)
	soon(t, asked(t, b, w))
	free(t, b, w)
}

// A writer that becomes a reader keeps its token, and readers come in.
func TestLighten(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	name := freshName(t)
	w, r, late := claim(name, time.Minute, false), shared(name), claim(name, time.Minute, true)
	g := take(t, b, w)
	reader := asked(t, b, r)
	queued(t, admin, name, 1)
	for range 2 {
		must(t, b.Lighten(within(t, 20*time.Second), w, 1))
	}
	soon(t, reader)
	all, err := b.Look(within(t, 20*time.Second), name)
	if err != nil || len(all) != 2 || all[0].ID != w.ID || all[0].Token != g.Token || all[0].Weight != 1 || !all[0].Held {
		t.Errorf("%+v, %v", all, err)
	}
	writer := asked(t, b, late)
	queued(t, admin, name, 1)
	free(t, b, w)
	free(t, b, r)
	soon(t, writer)
	free(t, b, late)
	if err := b.Lighten(within(t, 20*time.Second), w, 1); !errors.Is(err, driver.ErrGone) {
		t.Errorf("a claim that holds nothing: %v", err)
	}
	nothingLeft(t, admin, name)
}

// A name that lingers is taken until then, and passed on after, also to one who came to wait before.
func TestLinger(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	for _, c := range []*driver.Claim{claim(freshName(t), time.Minute, false), shared(freshName(t))} {
		take(t, b, c)
		w := claim(c.Name, time.Minute, true)
		granted := asked(t, b, w)
		queued(t, admin, c.Name, 1)
		const d = 500 * time.Millisecond
		began := time.Now()
		must(t, b.Linger(within(t, 20*time.Second), c, d))
		// Also where nobody asks for the name any more nothing stays for longer.
		if left := admin.PTTL(context.Background(), lockKey(c.Name)).Val(); left > d {
			t.Errorf("the key stays for %v", left)
		}
		taken(t, b, claim(c.Name, time.Minute, false))
		all, err := b.Look(within(t, 20*time.Second), c.Name)
		if err != nil || time.Since(began) < d && (len(all) != 2 || !all[0].Held || all[0].ID != c.ID) {
			t.Errorf("%+v, %v", all, err)
		}
		soon(t, granted)
		if took := time.Since(began); took < d {
			t.Errorf("granted after %v", took)
		}
		free(t, b, w)
		nothingLeft(t, admin, c.Name)
	}
}

// Look shows holders and waiters with all that they are, and Names what is held or waited for.
func TestLookAndNames(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	name := freshName(t) + "*[?\\"
	r1, r2, w := permits(name, 2, 7), permits(name, 3, 7), permits(name, 4, 7)
	r2.Owner, w.Owner = "two words\nand a line", ""
	take(t, b, r1)
	g := take(t, b, r2)
	granted := asked(t, b, w)
	queued(t, admin, name, 1)
	all, err := b.Look(within(t, 20*time.Second), name)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, c := range []*driver.Claim{r1, r2, w} {
		p := all[i]
		if p.Name != name || p.ID != c.ID || p.Owner != c.Owner || p.Weight != c.Weight || p.Limit != 7 || p.Held != (i < 2) ||
			(p.Token > 0) != p.Held || time.Since(p.Since).Abs() > time.Minute || p.Held != (p.Left > 0) || p.Left > time.Minute {
			t.Errorf("%d: %+v", i, p)
		}
	}
	if all[1].Token != g.Token {
		t.Errorf("token %d, want %d", all[1].Token, g.Token)
	}
	found := map[string]int{}
	other := opened(t, admin, WithPrefix("loc*")) // a group that a pattern would match
	for _, b := range []*backend{b, other} {
		for n, err := range b.Names(within(t, 20*time.Second), name[:len(name)-2]) {
			must(t, err)
			found[n]++
		}
	}
	if len(found) != 1 || found[name] != 1 {
		t.Errorf("names %v", found)
	}
	free(t, b, r1)
	soon(t, granted)
	free(t, b, r2)
	free(t, b, w)
	if all, err := b.Look(within(t, 20*time.Second), name); err != nil || len(all) != 0 {
		t.Errorf("a free name: %+v, %v", all, err)
	}
}

// Names does not show a name for as long as one wanted it who has released it, when the others who held it have died.
func TestNamesAfterALongLease(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	name := freshName(t)
	long, short := shared(name), shared(name)
	long.TTL, short.TTL = 24*time.Hour, 100*time.Millisecond
	take(t, b, long)
	take(t, b, short)
	free(t, b, long)
	eventually.Within(t, 30*time.Second, "the name is not shown", func() bool {
		for range b.Names(within(t, 20*time.Second), name) {
			return false
		}
		return true
	})
}

// Look shows the queue in its order also where one in it holds the name before others that are ahead of it.
func TestLookAtAMixedQueue(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	name := freshName(t)
	h, w, r := permits(name, 3, 5), permits(name, 5, 5), shared(name)
	take(t, b, h)
	waits := asked(t, b, w)
	queued(t, admin, name, 1)
	take(t, b, r)
	all, err := b.Look(within(t, 20*time.Second), name)
	if err != nil || len(all) != 3 || all[0].ID != h.ID || all[1].ID != w.ID || all[1].Held || all[2].ID != r.ID || !all[2].Held {
		t.Errorf("%+v, %v", all, err)
	}
	free(t, b, r)
	free(t, b, h)
	soon(t, waits)
	free(t, b, w)
}

// Evicted holders are told, evicted waiters queue anew, at the end, and nobody else is touched.
func TestEvict(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	a, b := opened(t, admin), opened(t, admin)
	ctx := within(t, 60*time.Second)
	name := freshName(t)
	h, first, second := claim(name, time.Minute, false), claim(name, time.Minute, true), claim(name, time.Minute, true)
	take(t, a, h)
	g1 := asked(t, a, first)
	queued(t, admin, name, 1)
	g2 := asked(t, b, second)
	queued(t, admin, name, 2)
	for _, id := range []string{"", first.ID[:31]} {
		if err := b.Evict(ctx, name, id); !errors.Is(err, driver.ErrGone) {
			t.Errorf("%q: %v", id, err)
		}
	}
	must(t, b.Evict(ctx, name, first.ID))
	eventually.Is(t, "the evicted waiter is the last", func() bool {
		all, err := b.Look(ctx, name)
		return err == nil && len(all) == 3 && all[2].ID == first.ID
	})
	must(t, b.Evict(ctx, name, h.ID))
	soon(t, g2)
	if _, err := renewed(t, a, h); !errors.Is(err, driver.ErrGone) {
		t.Errorf("the evicted holder: %v", err)
	}
	if err := b.Evict(ctx, name, h.ID); !errors.Is(err, driver.ErrGone) {
		t.Errorf("again: %v", err)
	}
	free(t, b, second)
	soon(t, g1)
	free(t, a, first)
	nothingLeft(t, admin, name)
}

// TestEvictWhomASlowServerNoLongerKnows: an eviction that comes too late says so, also where the answer takes longer than that of a
// request in place may.
func TestEvictWhomASlowServerNoLongerKnows(t *testing.T) {
	t.Parallel()
	p := front(t, servers.SharedRedis(t).Addr())
	b := opened(t, connect(t, p.Addr()))
	c := claim(freshName(t), time.Minute, false)
	for range 3 { // as long as answers are quick requests are made in place
		take(t, b, c)
		free(t, b, c)
	}
	p.Delay(0, 150*time.Millisecond)
	if err := b.Evict(within(t, 20*time.Second), c.Name, c.ID); !errors.Is(err, driver.ErrGone) {
		t.Errorf("got %v, want that nobody has this ID", err)
	}
}

// The tokens above that of a grant are nobody else's, and not far ahead of the time.
func TestSpareTokens(t *testing.T) {
	t.Parallel()
	b := opened(t, connect(t, servers.SharedRedis(t).Addr()))
	name := freshName(t)
	var last int64
	for range 20 {
		c := claim(name, time.Minute, false)
		c.Spare = 5000
		before := time.Now().UnixMicro()
		g := take(t, b, c)
		if g.Token <= last {
			t.Errorf("token %d after %d", g.Token, last)
		}
		if last = g.Token + g.Spare; g.Spare < 0 || g.Spare > 1000 || last > time.Now().UnixMicro()+1000 && last > before+2000 {
			t.Errorf("%d tokens above %d", g.Spare, g.Token)
		}
		free(t, b, c)
	}
}

// Whoever holds a name that others wait for is told so by a renewal.
func TestWanted(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	c, w := shared(freshName(t)), claim("", time.Minute, true)
	wanted := 0
	c.Wanted = func() { wanted++ }
	take(t, b, c)
	renew := func() {
		if _, err := renewed(t, b, c); err != nil {
			t.Error(err)
		}
	}
	renew()
	if wanted != 0 {
		t.Error("wanted by nobody")
	}
	w.Name = c.Name
	granted := asked(t, b, w)
	queued(t, admin, c.Name, 1)
	renew()
	if wanted != 1 {
		t.Errorf("told %d times", wanted)
	}
	free(t, b, c)
	soon(t, granted)
	free(t, b, w)
}

// A lease is confirmed, and never lengthened.
func TestLeaseIsConfirmed(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	for _, c := range []*driver.Claim{claim(freshName(t), time.Minute, false), shared(freshName(t))} {
		c.Lease = true
		take(t, b, c)
		admin.PExpire(context.Background(), lockKey(c.Name), 10*time.Second)
		if _, err := renewed(t, b, c); err != nil {
			t.Error(err)
		}
		if left := admin.PTTL(context.Background(), lockKey(c.Name)).Val(); left > 10*time.Second {
			t.Errorf("lengthened to %v", left)
		}
		admin.Del(context.Background(), lockKey(c.Name))
		if _, err := renewed(t, b, c); !errors.Is(err, driver.ErrGone) {
			t.Errorf("after its key was deleted: %v", err)
		}
	}
}

// A key that says that it stays for too long (its server's clock was set back, or an operator made it
// so) gives its holder no more time, and others need not wait for longer than its TTL.
func TestKeyThatStaysTooLong(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	ctx := within(t, 5*time.Minute)
	const ttl = 10 * time.Second
	for what, change := range map[string]func(name string){
		"an hour":  func(name string) { endsIn(t, admin, name, time.Hour) },
		"for ever": func(name string) { admin.Persist(ctx, lockKey(name)) },
	} {
		c := claim(freshName(t), ttl, false)
		take(t, b, c)
		change(c.Name)
		until, err := renewed(t, b, c)
		if left := until.Sub(b.clock.Now()); err != nil || left > c.TTL {
			t.Errorf("%s: %v left, %v", what, left, err)
		}
		change(c.Name) // and its holder is dead
		w := claim(c.Name, time.Minute, true)
		asked(t, b, w).Granted(t, ttl+time.Second+slack)
		free(t, b, w)
	}
	// The same for one of several.
	c, live := shared(freshName(t)), shared("")
	c.TTL = ttl
	live.Name = c.Name
	take(t, b, c)
	take(t, b, live)
	record := admin.HGet(ctx, lockKey(c.Name), c.ID).Val()
	admin.HSet(ctx, lockKey(c.Name), c.ID, regexp.MustCompile(`^(1 \w+) \d+`).ReplaceAllString(record, fmt.Sprint("$1 ", time.Now().Add(time.Hour).UnixMicro())))
	w := claim(c.Name, time.Minute, true)
	granted := asked(t, b, w)
	queued(t, admin, c.Name, 1)
	eventually.Is(t, "only the live reader is left", func() bool { return admin.HLen(ctx, lockKey(c.Name)).Val() == 2 })
	free(t, b, live)
	soon(t, granted)
	free(t, b, w)
}

// What is not a lock of ours holds the name, costs no busy asking and is left alone: a string of
// somebody else's, or of a later version.
func TestForeignLock(t *testing.T) {
	t.Parallel()
	later := "2 0123456789abcdef0123456789abcdef of a later version"
	for what, put := range map[string]func(ctx context.Context, admin *goredis.Client, key string){
		"string": func(ctx context.Context, admin *goredis.Client, key string) { admin.Set(ctx, key, later, 0) },
		"hash": func(ctx context.Context, admin *goredis.Client, key string) {
			admin.HSet(ctx, key, "0123456789abcdef0123456789abcdef", later)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := servers.NewRedis(t, servers.RedisOptions{})
			admin := connect(t, r.Addr())
			b := opened(t, connect(t, r.Addr()))
			ctx := within(t, 60*time.Second)
			name := freshName(t)
			put(ctx, admin, lockKey(name))
			taken(t, b, claim(name, time.Minute, false))
			taken(t, b, shared(name))
			w := claim(name, time.Minute, true)
			granted := asked(t, b, w)
			queued(t, admin, name, 1)
			eventually.Is(t, "the subscription has settled", func() bool { return b.Listening(b.Claim(w)) })
			before := requestsAt(t, r)
			time.Sleep(2 * time.Second) // what a waiter asks in that time
			if n := requestsAt(t, r) - before; n > 10 {
				t.Errorf("%d requests in two seconds", n)
			}
			if err := b.Abandon(ctx, claimAt(b, claim(name, time.Minute, false))); err != nil {
				t.Error(err)
			}
			if n := admin.Exists(ctx, lockKey(name)).Val(); n != 1 {
				t.Errorf("it was removed")
			}
			admin.Del(ctx, lockKey(name))
			if err := b.Abandon(ctx, claimAt(b, claim(name, time.Minute, false))); err != nil { // as anybody's release does
				t.Error(err)
			}
			granted.Granted(t, 30*time.Second)
			free(t, b, w)
		})
	}
}

// A key of a lock that somebody has put something else into is nobody's lock: its holder has lost it,
// those of others are renewed all the same, and it is left alone.
func TestForeignKeyWhileHeld(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	ctx := within(t, 20*time.Second)
	b := opened(t, admin)
	var claims []*driver.Claim
	for range 3 {
		c := claim(freshName(t), time.Minute, false)
		take(t, b, c)
		claims = append(claims, c)
	}
	lost := lockKey(claims[1].Name)
	admin.Del(ctx, lost)
	admin.RPush(ctx, lost, "precious")
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
	releaseIsGone(t, b, claims[1])
	if err := b.Abandon(ctx, claims[1]); err != nil {
		t.Error(err)
	}
	if v := admin.LRange(ctx, lost, 0, -1).Val(); len(v) != 1 {
		t.Errorf("the other's data is now %q", v)
	}
	free(t, b, claims[0])
	free(t, b, claims[2])
	admin.Del(ctx, lost)
}

// A clock that cannot be one, put there by hand, lets no token go back and harms nobody later.
func TestAbsurdClock(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.NewRedis(t, servers.RedisOptions{}).Addr()) // other names share the clock
	b := opened(t, admin)
	ctx := context.Background()
	name := freshName(t)
	var last int64
	next := func(what string) {
		t.Helper()
		for range 2 {
			c, w := claim(name, time.Minute, false), claim(name, time.Minute, true)
			g := take(t, b, c)
			granted := asked(t, b, w)
			queued(t, admin, name, 1)
			free(t, b, c)
			h := soon(t, granted)
			free(t, b, w)
			if g.Token <= last || h.Token <= g.Token {
				t.Errorf("%s: tokens %d and %d after %d", what, g.Token, h.Token, last)
			}
			last = h.Token
		}
	}
	next("as usual")
	for _, odd := range []string{"9999999999999999", "9007199254740993", "9223372036854775807", "-1", "", "nonsense"} {
		admin.Set(ctx, clockKey(name), odd, 0)
		next(odd)
		admin.Del(ctx, clockKey(name))
		next("after " + odd)
	}
	admin.Del(ctx, clockKey(name))
	admin.RPush(ctx, clockKey(name), "a list")
	next("a list")
	ahead := time.Now().Add(2 * time.Second).UnixMicro()
	admin.Set(ctx, clockKey(name), ahead, 0)
	if next("a clock that is ahead"); last <= ahead {
		t.Errorf("token %d, the clock said %d", last, ahead)
	}
}

// connectAs returns a client of a user who may do everything, but for the rules.
func connectAs(t *testing.T, admin *goredis.Client, addr, user string, rules ...string) *goredis.Client {
	t.Helper()
	rules = append([]string{"on", ">pw", "~*", "&*", "+@all"}, rules...)
	must(t, admin.ACLSetUser(context.Background(), user, rules...).Err())
	o := options(addr)
	o.Username, o.Password = user, "pw"
	return closing(t, goredis.NewClient(o))
}

// A release that is not permitted says so, and keeps on saying it.
func TestReleaseRefused(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	b := opened(t, connectAs(t, admin, r.Addr(), "u"))
	c := claim(freshName(t), time.Minute, false)
	take(t, b, c)
	admin.ACLSetUser(context.Background(), "u", "-del")
	for range 2 {
		if err := b.Release(within(t, 20*time.Second), c); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("release: %v", err)
		}
	}
	admin.ACLSetUser(context.Background(), "u", "+del")
	free(t, b, c)
	nothingLeft(t, admin, c.Name)
}

// A holder is told within a second that its lock was deleted, whatever kind of lock it is, also one
// whose lease is not renewed while another has the name already.
func TestHolderIsToldOfDeletion(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	for what, opts := range map[string][]locker.AcquireOption{
		"exclusive": nil,
		"lease":     {locker.WithLease(time.Minute)},
		"shared":    {locker.Shared()},
		"permits":   {locker.Permits(2, 5)},
	} {
		l := open(t, admin, locker.WithTTL(10*time.Minute)) // no renewal tells it
		lock := acquire(t, l, freshName(t), opts...)
		w := wants(within(t, 60*time.Second), open(t, admin), lock.Name())
		queued(t, admin, lock.Name(), 1)
		admin.Del(context.Background(), lockKey(lock.Name()))
		lost(t, lock, 20*time.Second)
		if next := w.Granted(t, 20*time.Second); next.Token() <= lock.Token() {
			t.Errorf("%s: token %d after %d", what, next.Token(), lock.Token())
		}
		release(t, w.Value)
	}
}

// A renewal that comes after the release does not lengthen a holding that lingers.
func TestRenewalDoesNotLengthenLingering(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	for _, d := range []time.Duration{10 * time.Second, time.Minute} { // less than its TTL, and as much
		c := claim(freshName(t), time.Minute, false)
		take(t, b, c)
		must(t, b.Linger(within(t, 20*time.Second), c, d))
		endsIn(t, admin, c.Name, 5*time.Second) // as if half of it were over
		_, _ = renewed(t, b, c)
		if left := admin.PTTL(context.Background(), lockKey(c.Name)).Val(); left > 5*time.Second {
			t.Errorf("asked for %v: it stays for %v", d, left)
		}
	}
}

// A waiter that comes when the key is about to end, before its record does, looks when it has ended.
func TestKeyThatEndsBeforeItsRecord(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	c := claim(freshName(t), time.Minute, false)
	take(t, b, c)
	admin.PExpire(context.Background(), lockKey(c.Name), 500*time.Millisecond)
	w := claim(c.Name, time.Minute, true)
	soon(t, asked(t, b, w))
	free(t, b, w)
}
