package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// What becomes of tokens, holders and waiters when the server loses data.

// Row 18: Redis restarts empty. The token does not go back, also for those who see
// the server for the first time, and holders and waiters go on as they should.
func TestRestartEmpty(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	a, b := open(t, connect(t, r.Addr()), locker.WithTTL(10*time.Minute)), open(t, connect(t, r.Addr()))
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 1)
	must(t, r.Kill())
	must(t, r.Restart(within(t, 60*time.Second)))
	next := w.Granted(t, 10*time.Second+slack)
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	// Exclusion is lost with the data; the holder learns of it within a second.
	lost(t, lock, 20*time.Second)
	release(t, next)
	stranger := acquire(t, open(t, connect(t, r.Addr())), name)
	if stranger.Token() <= next.Token() {
		t.Errorf("token %d after %d", stranger.Token(), next.Token())
	}
	release(t, stranger)
}

// The clock may be deleted at any time: also under a claim for which somebody waits.
func TestClockDeletedUnderRelease(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{}) // other names share the clock
	admin := connect(t, r.Addr())
	b := opened(t, connect(t, r.Addr()))
	c := claim(freshName(t), time.Minute, false)
	g, err := b.Acquire(within(t, 20*time.Second), c)
	must(t, err)
	w := wants(within(t, 60*time.Second), open(t, admin), c.Name)
	queued(t, admin, c.Name, 1)
	admin.Del(context.Background(), clockKey(c.Name))
	must(t, b.Release(within(t, 20*time.Second), c))
	lock := w.Granted(t, slack)
	if lock.Token() <= g.Token {
		t.Errorf("token %d after %d", lock.Token(), g.Token)
	}
	release(t, lock)
}

// Row 19: Redis fails over to a replica that never saw the lock. Two holders cannot be
// prevented; the tokens are in order.
func TestFailoverToReplicaThatLagged(t *testing.T) {
	t.Parallel()
	g := servers.NewReplicatedRedis(t, 1, servers.RedisOptions{})
	ctx := within(t, 60*time.Second)
	replica := g.Replicas[0]
	p := front(t, g.Master.Addr())
	master, second := connect(t, g.Master.Addr()), connect(t, replica.Addr())
	a, b := open(t, connect(t, p.Addr())), open(t, connect(t, p.Addr()))
	name := freshName(t)
	release(t, acquire(t, a, name))
	master.Set(ctx, "control", "before", 0)
	if n, err := master.Wait(ctx, 1, 5*time.Second).Result(); n != 1 {
		t.Fatal(n, err)
	}

	must(t, replica.Pause())
	master.ClientKillByFilter(ctx, "TYPE", "replica")
	lock := acquire(t, a, name)
	master.Set(ctx, "control", "after", 0)
	w := wants(ctx, b, name)
	queued(t, master, name, 1)
	must(t, g.Master.Kill())
	must(t, replica.Resume())
	if _, err := replica.Do(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		t.Fatal(err)
	}
	if v := second.Get(ctx, "control").Val(); v != "before" {
		t.Fatalf("the replica saw %q: the test shows nothing", v)
	}
	p.SetTarget(replica.Addr())
	p.Cut()

	next := w.Granted(t, 10*time.Second+slack)
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	lost(t, lock, 3*time.Second+slack)
	if err := lock.Release(ctx); !errors.Is(err, locker.ErrLost) {
		t.Errorf("release after the loss: %v", err)
	}
	release(t, next)
}

// Row 24: renewing never brings a lock back.
func TestRenewDoesNotBringBack(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	b := opened(t, admin)
	ctx := within(t, 2*time.Minute)
	c := claim(freshName(t), time.Minute, false)
	renew := func() (until driver.Instant, err error) { return renewed(t, b, c) }
	if _, err := b.Acquire(ctx, c); err != nil {
		t.Fatal(err)
	}
	if until, err := renew(); err != nil || until < b.clock.Now().Add(30*time.Second) {
		t.Fatal(until, err)
	}
	admin.Del(ctx, lockKey(c.Name))
	if _, err := renew(); !errors.Is(err, driver.ErrGone) {
		t.Errorf("after DEL: %v", err)
	}
	admin.HSet(ctx, lockKey(c.Name), "another's", "owner")
	if _, err := renew(); !errors.Is(err, driver.ErrGone) {
		t.Errorf("held by another: %v", err)
	}
	gaveUp, cancel := context.WithCancel(ctx)
	w := wants(gaveUp, open(t, connect(t, r.Addr())), c.Name)
	queued(t, admin, c.Name, 1)
	releaseIsGone(t, b, c)
	if v := admin.HGetAll(ctx, lockKey(c.Name)).Val(); v["another's"] != "owner" || len(v) != 1 {
		t.Errorf("the other's lock is now %q", v)
	}
	if n := admin.LLen(ctx, queueKey(c.Name)).Val(); n != 1 {
		t.Errorf("%d wait", n)
	}
	cancel()
	<-w.Done
	admin.Del(ctx, lockKey(c.Name))
}

// A holding that was taken just before a look is not left until more than half of its
// time is over. One that was only just lengthened is not written again.
func TestRenewLengthensInTime(t *testing.T) {
	t.Parallel()
	admin := connect(t, servers.SharedRedis(t).Addr())
	b := opened(t, admin)
	ctx := within(t, 20*time.Second)
	const ttl = time.Minute
	c := claim(freshName(t), ttl, false)
	if _, err := b.Acquire(ctx, c); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		left       time.Duration
		lengthened bool
	}{{ttl * 95 / 100, false}, {ttl * 80 / 100, true}} {
		endsIn(t, admin, c.Name, row.left)
		if _, err := renewed(t, b, c); err != nil {
			t.Error(err)
		}
		if left := admin.PTTL(ctx, lockKey(c.Name)).Val(); (left > row.left) != row.lengthened {
			t.Errorf("%v of %v was left, after a look it is %v", row.left, ttl, left)
		}
	}
	if err := b.Release(ctx, c); err != nil {
		t.Error(err)
	}
}

// A lock that is deleted by hand goes to the first who waits, not only when the
// waiter looks by itself.
func TestDeletedByHand(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	a, b := open(t, connect(t, r.Addr())), open(t, connect(t, r.Addr()))
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 1)
	admin.Del(context.Background(), lockKey(name))
	release(t, w.Granted(t, time.Second+slack))
	<-lock.Context().Done()
}

// Row 26: a server that throws keys away. Its operator is warned, the holder learns of
// it soon after.
func TestEviction(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{Args: []string{"--maxmemory", "3mb", "--maxmemory-policy", "volatile-lru"}})
	ctx := within(t, 60*time.Second)
	admin := connect(t, r.Addr())
	log := new(eventually.Output)
	l := open(t, connect(t, r.Addr()), locker.WithTTL(10*time.Minute), locker.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	lock := acquire(t, l, freshName(t))
	eventually.Is(t, "a warning", func() bool { return strings.Contains(log.String(), "volatile-lru") })

	fill(ctx, admin)
	if n, _ := admin.Exists(ctx, lockKey(lock.Name())).Result(); n != 0 {
		t.Fatal("nothing was evicted: the test shows nothing")
	}
	lost(t, lock, 20*time.Second)
	if n, _ := admin.Exists(ctx, clockKey(lock.Name())).Result(); n != 1 {
		t.Error("the clock was evicted, too")
	}
	if strings.Count(log.String(), "volatile-lru") != 1 {
		t.Error("more than one warning")
	}
}

// Row 27: Redis is out of memory. Acquiring fails and says why, releasing works, also where the name stays taken, and so
// does handing over.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	ctx := within(t, 60*time.Second)
	admin := connect(t, r.Addr())
	a, b := open(t, connect(t, r.Addr()), locker.WithTTL(time.Minute)), open(t, connect(t, r.Addr()), lasting) // those of a are renewed
	alone, name := acquire(t, a, freshName(t)), freshName(t)
	lock := acquire(t, a, name)
	w := wants(ctx, b, name)
	queued(t, admin, name, 1)
	gaveUp, cancel := context.WithCancel(ctx)
	late := wants(gaveUp, open(t, connect(t, r.Addr()), lasting), name)
	queued(t, admin, name, 2)

	var readers []*locker.Lock
	for range 3 {
		readers = append(readers, acquire(t, a, "readers of "+name, locker.Shared()))
	}
	d := opened(t, connect(t, r.Addr()))
	lingering := []*driver.Claim{claim(freshName(t), time.Minute, false), shared(freshName(t))}
	for _, c := range lingering {
		take(t, d, c)
	}
	admin.ConfigSet(ctx, "maxmemory", "1")
	for _, c := range lingering {
		if err := d.Linger(ctx, c, 10*time.Minute); err != nil || admin.PTTL(ctx, lockKey(c.Name)).Val() <= time.Minute {
			t.Errorf("linger: %v", err)
		}
	}
	for what, do := range map[string]func(context.Context, string, ...locker.AcquireOption) (*locker.Lock, error){"try": a.TryAcquire, "acquire": a.Acquire} {
		inTime := locktest.Limit(t, 20*time.Second)
		if _, err := do(ctx, freshName(t)); !goredis.IsOOMError(err) {
			t.Errorf("%s: %v", what, err)
		}
		inTime(what)
	}
	cancel()
	<-late.Done
	queued(t, admin, name, 1)
	eventually.Is(t, "readers renewed", renewal(t, readers...))
	for _, reader := range readers {
		release(t, reader)
	}
	nothingLeft(t, admin, readers[0].Name())
	release(t, alone)
	release(t, lock)
	release(t, w.Granted(t, slack))
	nothingLeft(t, admin, name)
	nothingLeft(t, admin, alone.Name())
}

// fill writes until the server has no more memory.
func fill(ctx context.Context, admin *goredis.Client) {
	block := strings.Repeat("x", 10000)
	for i := range 1000 {
		if admin.Set(ctx, fmt.Sprint("filling", i), block, 0).Err() != nil {
			return
		}
	}
}
