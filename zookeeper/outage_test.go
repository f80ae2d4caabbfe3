package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/lateness"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The library says nothing until it has reconnected, which may be long after the
// session has expired.
func TestPartitionIsToldBeforeTheNextHolder(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	for what, freeze := range map[string]func(*proxy.Proxy){
		"both":     (*proxy.Proxy).Freeze,
		"requests": (*proxy.Proxy).FreezeUp,
		// The servers go on hearing of a holder who does not hear of them.
		"replies": (*proxy.Proxy).FreezeDown,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			late, giveBack := lateness.Share()
			defer giveBack()
			p := front(t, z.Addr())
			a := open(t, []string{p.Addr()}, locker.WithTTL(2*time.Second))
			b := open(t, []string{z.Addr()})
			n := name(t)
			first, err := a.Acquire(within(t, time.Minute), n)
			must(t, err)
			lost := make(chan time.Time, 1)
			context.AfterFunc(first.Context(), func() { lost <- time.Now() })
			freeze(p)
			frozen := time.Now()
			second, err := b.Acquire(within(t, time.Minute), n)
			granted := time.Now()
			must(t, err)
			if first.Context().Err() == nil {
				t.Fatal("two hold")
			}
			if at := await(t, lost, "loss"); at.Sub(granted) > late.Slack(frozen) {
				t.Errorf("told %v after the next holder had it", at.Sub(granted))
			}
			t.Logf("the next holder had it after %v", granted.Sub(frozen))
			p.Heal()
			if err := freed(within(t, time.Minute), second); err != nil {
				t.Error(err)
			}
			// In a new session, and nothing of the old is left.
			eventually.Is(t, "a release before the short session is over", func() bool {
				third, err := a.Acquire(within(t, time.Minute), n)
				must(t, err)
				if third.Token() <= second.Token() {
					t.Errorf("tokens %d, %d", second.Token(), third.Token())
				}
				return third.Release(within(t, time.Minute)) == nil
			})
		})
	}
}

// A server that takes connections and never answers must not keep the Locker from
// another until the session is over: the library would wait ten times as long.
func TestServerThatDoesNotAnswerIsLeft(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p, q := front(t, z.Addr()), front(t, z.Addr())
	l, d := both(t, []string{p.Addr(), q.Addr()}, locker.WithTTL(20*time.Second))
	lock, err := l.Acquire(within(t, time.Minute), name(t))
	must(t, err)
	eventually.Is(t, "one connection", func() bool { return p.Stats().Open+q.Stats().Open == 1 })
	used, other := p, q
	if q.Stats().Open > 0 {
		used, other = q, p
	}
	before := other.Stats().Accepted
	other.BlackHole()
	used.Cut()
	eventually.Is(t, "the other server to be tried", func() bool { return other.Stats().Accepted > before })
	eventually.Is(t, "the first to be used again", func() bool { return !d.disconnected() })
	if err := freed(within(t, time.Minute), lock); err != nil {
		t.Errorf("release: %v", err)
	}
	other.Heal()
}

func TestCallsObeyTheirContextWhileDisconnected(t *testing.T) {
	beside(t)
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	l := open(t, []string{z.Addr()})
	held, err := l.Acquire(within(t, time.Minute), "held")
	must(t, err)
	must(t, z.Kill())
	eventually.Is(t, "the end of the connection to be noticed", func() bool {
		_, err := l.TryAcquire(within(t, time.Minute), "held")
		return errors.Is(err, zk.ErrNoServer)
	})
	for what, call := range map[string]func(ctx context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := l.Acquire(ctx, "a"); return err },
		"try":     func(ctx context.Context) error { _, err := l.TryAcquire(ctx, "b"); return err },
		"release": func(ctx context.Context) error { return held.Release(ctx) },
	} {
		// On a machine that is late a call may be over before it has learned why.
		eventually.Is(t, what+" to say that there is no server", func() bool {
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			inTime := locktest.Limit(t, time.Second)
			err := call(ctx)
			inTime(what)
			if err == nil || what == "acquire" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
			return what == "release" || errors.Is(err, zk.ErrNoServer)
		})
	}
	// Without a deadline a try fails all the same.
	if _, err := l.TryAcquire(context.Background(), "c"); !errors.Is(err, zk.ErrNoServer) {
		t.Errorf("try: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	inTime := locktest.Limit(t, time.Second)
	_ = l.Close(ctx)
	inTime("close")
}

// Waiters wait while servers are away, and a holder keeps its lock if the session
// outlives the outage.
func TestRestartWithHolderAndWaiter(t *testing.T) {
	beside(t)
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	op := console(t, z.Addr())
	a, b := open(t, []string{z.Addr()}, locker.WithTTL(20*time.Second)), open(t, []string{z.Addr()})
	held, err := a.Acquire(within(t, time.Minute), "x")
	must(t, err)
	turn := make(chan *locker.Lock, 1)
	go func() {
		lock, err := b.Acquire(within(t, 3*time.Minute), "x")
		if err != nil {
			t.Error(err)
		}
		turn <- lock
	}()
	op.length("x", 2)
	killed := time.Now()
	must(t, z.Kill())
	must(t, z.Restart(within(t, 3*time.Minute)))
	err = held.Release(within(t, time.Minute))
	took := time.Since(killed)
	switch lost := errors.Is(err, locker.ErrLost); {
	case lost && took < 10*time.Second: // a session of 17 s, with a margin
		t.Errorf("lost after %v: %v", took, err)
	case err != nil && !lost && took < 5*time.Second: // how long a release waits; it goes on aside
		t.Errorf("release after %v: %v", took, err)
	}
	next := await(t, turn, "the waiter's turn")
	if next == nil {
		return
	}
	if next.Token() <= held.Token() {
		t.Errorf("tokens %d, %d", held.Token(), next.Token())
	}
	if err := freed(within(t, time.Minute), next); err != nil {
		t.Error(err)
	}
}

// The server comes back empty, or with less than the Locker has seen.
func TestServerThatComesBackEmpty(t *testing.T) {
	beside(t)
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	l := open(t, []string{z.Addr()}, locker.WithTTL(12*time.Second))
	for range 20 { // more than what it takes to open sessions, of which a server knows that comes back empty
		if !uses(t, l, "x") {
			return
		}
	}
	must(t, z.RestartEmpty(within(t, 3*time.Minute)))
	uses(t, l, "x")
}

// Cut again and again, more often than the library's event channel holds.
func TestManyDisconnects(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := front(t, z.Addr())
	l := open(t, []string{p.Addr()}, locker.WithTTL(time.Minute)) // how long it takes is no matter
	n := name(t)
	held, err := l.Acquire(within(t, time.Minute), n)
	must(t, err)
	for range 20 {
		before := p.Stats().Accepted
		p.Cut()
		eventually.Is(t, "a new connection", func() bool { return p.Stats().Accepted > before })
	}
	for i := range 20 {
		lock, err := l.Acquire(within(t, time.Minute), fmt.Sprint(n, i))
		must(t, err)
		must(t, freed(within(t, time.Minute), lock))
	}
	if err := held.Context().Err(); err != nil {
		t.Errorf("lost: %v", context.Cause(held.Context()))
	}
	if err := freed(within(t, time.Minute), held); err != nil {
		t.Error(err)
	}
}

// A call of the library that has no connection to go by comes back when the session is over anyway: the
// library itself would keep it until there is a server again.
func TestCallsComeBackWithoutServer(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := front(t, z.Addr())
	d := raw(t, []string{p.Addr()}, locker.WithTTL(10*time.Second))
	p.Refuse()
	p.Cut()
	eventually.Is(t, "the end of the connection to be noticed", d.disconnected)
	done := make(chan error, 1)
	go func() {
		_, _, err := d.session.conn.Exists("/")
		done <- err
	}()
	if err := await(t, done, "the call"); !errors.Is(err, zk.ErrNoServer) && !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("read: %v", err)
	}
	p.Heal()
	c := claim(name(t))
	take(t, d, c)
	release(t, d, c)
}
