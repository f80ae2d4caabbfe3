package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// patient is how long a caller waits here for what may pass. go-redis dials for half a
// second before it says that nobody is there.
const patient = 1500 * time.Millisecond

// refuses checks that both ways to acquire fail and name the reason; for a
// reason that may pass, the one that waits does so until its context ends.
func refuses(t *testing.T, l locker.Locker, word string, passes bool) {
	t.Helper()
	name := freshName(t)
	ask := func(what string, wait time.Duration, do func(context.Context, string, ...locker.AcquireOption) (*locker.Lock, error)) error {
		for {
			inTime := locktest.Limit(t, wait+slack)
			_, err := do(within(t, wait), name)
			if wait >= 20*time.Second || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), word) {
				names(t, what, err, word)
				inTime(what)
				return err
			}
			wait *= 2 // the server has not answered in time
		}
	}
	_ = ask("try", 10*time.Second, l.TryAcquire)
	wait := 20 * time.Second
	if passes {
		wait = patient
	}
	if err := ask("acquire", wait, l.Acquire); passes != errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("acquire: %v", err)
	}
}

func names(t *testing.T, what string, err error, word string) {
	t.Helper()
	var known *locker.Error
	if !errors.As(err, &known) || known.Backend != "redis" || !strings.Contains(err.Error(), word) {
		t.Errorf("%s: %v, want an error of redis that names %s", what, err, word)
	}
	if errors.Is(err, locker.ErrNotAcquired) || errors.Is(err, locker.ErrLost) {
		t.Errorf("%s: %v says something about who holds the name", what, err)
	}
	var answer goredis.Error
	if strings.ToUpper(word) == word && !errors.As(err, &answer) {
		t.Errorf("%s: %v does not wrap the client's error", what, err)
	}
}

// What may pass is waited out: a waiter that came while it lasted gets the lock
// when it is over, and one whose lock is released meanwhile does so after.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	for word, c := range map[string]struct {
		args          []string
		begin, finish func(ctx context.Context, t *testing.T, r *servers.Redis)
	}{
		"READONLY": {
			begin:  do("REPLICAOF", "127.0.0.1", "1"),
			finish: do("REPLICAOF", "NO", "ONE"),
		},
		"NOREPLICAS": {
			begin:  do("CONFIG", "SET", "min-replicas-to-write", "1"),
			finish: do("CONFIG", "SET", "min-replicas-to-write", "0"),
		},
		"BUSY": {
			args: []string{"--lua-time-limit", "10"},
			begin: func(_ context.Context, t *testing.T, r *servers.Redis) {
				o := options(r.Addr())
				o.ReadTimeout, o.MaxRetries = -1, -1 // else it sends the script again
				client := closing(t, goredis.NewClient(o))
				go client.Eval(context.Background(), "while true do end", nil)
				eventually.Is(t, "busy", func() bool { return client.Ping(context.Background()).Err() != nil })
			},
			finish: do("SCRIPT", "KILL"),
		},
		"MASTERDOWN": {
			args:   []string{"--replica-serve-stale-data", "no"},
			begin:  do("REPLICAOF", "127.0.0.1", "1"),
			finish: do("REPLICAOF", "NO", "ONE"),
		},
	} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			r := servers.NewRedis(t, servers.RedisOptions{Args: c.args})
			ctx := within(t, 3*time.Minute)
			l := open(t, connect(t, r.Addr()), locker.WithTTL(3*time.Minute))
			lock := acquire(t, l, freshName(t))
			c.begin(ctx, t, r)
			refuses(t, l, word, true)
			w := wants(ctx, l, freshName(t))
			c.finish(ctx, t, r)
			release(t, w.Granted(t, 3*time.Second+slack))
			if lock.Context().Err() != nil {
				t.Errorf("%v after a moment in which the server refused", context.Cause(lock.Context()))
			}
			release(t, lock)
			nothingLeft(t, connect(t, r.Addr()), lock.Name())
		})
	}
}

func do(args ...string) func(context.Context, *testing.T, *servers.Redis) {
	return func(ctx context.Context, t *testing.T, r *servers.Redis) {
		t.Helper()
		if _, err := r.Do(ctx, args...); err != nil {
			t.Fatal(err)
		}
	}
}

// The server is loading its data.
func TestLoading(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{Args: []string{"--rdbcompression", "no"}})
	ctx := within(t, 2*time.Minute)
	admin := connect(t, r.Addr())
	l := open(t, connect(t, r.Addr()))
	// A wait leaves a subscription that breaks with the server.
	held := acquire(t, l, freshName(t))
	short, done := context.WithTimeout(ctx, 200*time.Millisecond)
	_, err := l.Acquire(short, held.Name())
	done()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	release(t, held)
	pipe := admin.Pipeline()
	for i := range 6000 {
		pipe.Set(ctx, fmt.Sprint("data", i), strings.Repeat("x", 100), 0)
	}
	pipe.Save(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	must(t, r.Kill())
	r.SetArgs("--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024")
	must(t, r.RestartNoWait(ctx))
	_, err = l.TryAcquire(ctx, freshName(t))
	names(t, "try", err, "LOADING")
	// What the server says is said, and not that the connection to it had broken before.
	_, err = l.Acquire(within(t, 10*time.Second), freshName(t)) // loading takes half a minute
	names(t, "acquire", err, "LOADING")
	w := wants(ctx, l, freshName(t))
	if _, err := r.Do(ctx, "CONFIG", "SET", "key-load-delay", "0"); err != nil {
		t.Fatal(err)
	}
	must(t, r.WaitReady(ctx))
	release(t, w.Granted(t, 3*time.Second+slack))
}

// The server cannot write to its disk.
func TestMisconf(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{Args: []string{"--save", "3600 1000000", "--dbfilename", "dump.rdb"}})
	ctx := within(t, 3*time.Minute)
	l := open(t, connect(t, r.Addr()), locker.WithTTL(3*time.Minute))
	lock := acquire(t, l, freshName(t))
	admin := connect(t, r.Addr())
	// A directory stands where the file has to go.
	must(t, breakSaving(ctx, admin))
	refuses(t, l, "MISCONF", false)
	admin.ConfigSet(ctx, "stop-writes-on-bgsave-error", "no")
	release(t, lock)
}

// A key of ours holds something that is not ours.
func TestWrongType(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	ctx := within(t, 20*time.Second)
	l := open(t, connect(t, r.Addr()))
	name := freshName(t)
	admin.RPush(ctx, lockKey(name), "precious data")
	_, err := l.TryAcquire(ctx, name)
	names(t, "try", err, "WRONGTYPE")
	_, err = l.Acquire(ctx, name)
	names(t, "acquire", err, "WRONGTYPE")
	if v := admin.LRange(ctx, lockKey(name), 0, -1).Val(); len(v) != 1 || v[0] != "precious data" {
		t.Errorf("the other's data is now %q", v)
	}
}

// A user who may not subscribe or publish cannot wait, and is told so instead of
// waiting for news that will not come. What needs neither works.
func TestWaiterWithoutPermission(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	ctx := within(t, 60*time.Second)
	a := open(t, admin, lasting)
	for _, command := range []string{"subscribe", "publish", "pubsub", "evalsha"} {
		l := open(t, connectAs(t, admin, r.Addr(), command, "-"+command), lasting)
		name := freshName(t)
		if command != "evalsha" {
			lock, err := l.TryAcquire(ctx, name)
			if err != nil {
				t.Fatalf("without %s: %v", command, err)
			}
			release(t, lock)
		}
		lock := acquire(t, a, name)
		inTime := locktest.Limit(t, 20*time.Second)
		_, err := l.Acquire(ctx, name)
		if command == "pubsub" { // a command of a script
			names(t, "acquire without "+command, err, "can't run this command")
		} else {
			names(t, "acquire without "+command, err, "NOPERM")
		}
		inTime("an acquisition without " + command)
		release(t, lock)
		nothingLeft(t, admin, name)
	}
}

// The one who releases may not publish: its lock is free all the same, and the
// waiter finds out by itself.
func TestReleaseWithoutPermission(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	ctx := within(t, 60*time.Second)
	const ttl = 10 * time.Second
	a, b := open(t, connectAs(t, admin, r.Addr(), "mute", "-publish"), locker.WithTTL(ttl)), open(t, connect(t, r.Addr()), locker.WithTTL(ttl))
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(ctx, b, name)
	queued(t, admin, name, 1)
	release(t, lock)
	release(t, w.Granted(t, ttl+time.Second+slack))
}

// Nobody is there: refused connections are an outage, which a waiter waits out.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	ctx := within(t, 3*time.Minute)
	must(t, r.Kill())
	l := open(t, connect(t, r.Addr()))
	refuses(t, l, "refused", true)
	w := wants(ctx, l, freshName(t))
	must(t, r.Restart(ctx))
	release(t, w.Granted(t, 5*time.Second+slack))
}

// The client was closed: no waiting helps.
func TestClientClosed(t *testing.T) {
	t.Parallel()
	client := goredis.NewClient(options(servers.SharedRedis(t).Addr()))
	l := open(t, client)
	release(t, acquire(t, l, freshName(t)))
	client.Close()
	if _, err := l.Acquire(within(t, 20*time.Second), freshName(t)); !errors.Is(err, goredis.ErrClosed) {
		t.Error(err)
	}
}

// The commands that the documentation says a user needs are enough.
func TestLeastPermission(t *testing.T) {
	t.Parallel()
	r := servers.SharedRedis(t)
	admin := connect(t, r.Addr())
	ctx := within(t, 2*time.Minute)
	rules := []string{"on", ">pw", "~" + DefaultPrefix + ":*", "&" + DefaultPrefix + ":*", "-@all", "+hello"}
	for command := range strings.FieldsSeq(leastCommands) {
		rules = append(rules, "+"+command)
	}
	must(t, admin.ACLSetUser(ctx, "locker", rules...).Err())
	o := options(r.Addr())
	o.Username, o.Password = "locker", "pw"
	a, b := open(t, closing(t, goredis.NewClient(o)), locker.WithTTL(30*time.Second)), open(t, closing(t, goredis.NewClient(o)), lasting)
	name := freshName(t)
	lock := acquire(t, a, name)
	gaveUp, cancel := context.WithCancel(ctx)
	c := open(t, closing(t, goredis.NewClient(o)), lasting)
	late := wants(gaveUp, c, name)
	queued(t, admin, name, 1)
	w := wants(ctx, b, name)
	queued(t, admin, name, 2)
	cancel()
	<-late.Done
	queued(t, admin, name, 1)
	eventually.Is(t, "renewed", renewal(t, lock))
	release(t, lock)
	release(t, w.Granted(t, slack))
	nothingLeft(t, admin, name)
	if err := closing(t, goredis.NewClient(o)).Ping(ctx).Err(); err != nil { // as a subscription does after 30 s of silence
		t.Error(err)
	}

	d := opened(t, closing(t, goredis.NewClient(o)))
	one, two := shared(name), claim(name, time.Minute, false)
	two.Lease = true
	for _, c := range []*driver.Claim{two, one} {
		if _, err := d.Acquire(ctx, c); err != nil {
			t.Fatal(err)
		}
		if _, err := renewed(t, d, c); err != nil {
			t.Error(err)
		}
		if err := d.Lighten(ctx, c, 1); err != nil {
			t.Error(err)
		}
	}
	if all, err := d.Look(ctx, name); err != nil || len(all) != 2 {
		t.Error(all, err)
	}
	for found, err := range d.Names(ctx, name) {
		if found != name || err != nil {
			t.Error(found, err)
		}
	}
	if err := d.Evict(ctx, name, one.ID); err != nil {
		t.Error(err)
	}
	if err := d.Linger(ctx, two, time.Second); err != nil {
		t.Error(err)
	}
}

// A waiter goes on waiting while dialling times out, as it does where a firewall drops everything.
func TestDialThatTimesOutIsWaitedFor(t *testing.T) {
	t.Parallel()
	o := *connect(t, servers.SharedRedis(t).Addr()).Options()
	var away atomic.Bool
	var dialled atomic.Int64
	away.Store(true)
	o.DialerRetries = 1
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialled.Add(1); away.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	l := open(t, closing(t, goredis.NewClient(&o)))
	w := wants(within(t, time.Minute), l, freshName(t))
	eventually.Is(t, "dialled again and again", func() bool { return dialled.Load() >= 5 })
	select {
	case <-w.Done:
		t.Fatalf("it did not wait: %v", w.Err)
	default:
	}
	away.Store(false)
	release(t, w.Granted(t, 30*time.Second))
}

// leastCommands are those that the documentation of the package lists.
const leastCommands = "evalsha eval time exists get set del hget hset hdel hgetall hincrby pttl pexpire " +
	"lindex llen lpop lpos lrange lrem rpush publish subscribe pubsub|numsub ping scan"

// Hooks that were added before see the requests that are sent on the caller's
// goroutine, too.
func TestHooksSeeEverything(t *testing.T) {
	t.Parallel()
	client := connect(t, servers.SharedRedis(t).Addr())
	seen := &seeing{}
	client.AddHook(seen)
	for range 2 { // two Lockers of one client
		l := open(t, client)
		before := seen.n.Load()
		for range 10 {
			release(t, acquire(t, l, freshName(t)))
		}
		if n := seen.n.Load() - before; n < 20 {
			t.Errorf("the hook saw %d of 20 requests", n)
		}
	}
}

type seeing struct{ n atomic.Int64 }

func (*seeing) DialHook(next goredis.DialHook) goredis.DialHook { return next }
func (*seeing) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}
func (s *seeing) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if cmd.Name() == "evalsha" || cmd.Name() == "hdel" {
			s.n.Add(1)
		}
		return next(ctx, cmd)
	}
}
