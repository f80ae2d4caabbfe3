package redlock

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
)

// A release that all nodes have carried out and whose answers were lost is a release, and not a lock
// that was lost, also where another has got the name by then.
func TestReleaseWhoseAnswersAreLost(t *testing.T) {
	for what, waiting := range map[string]bool{"alone": false, "with a waiter": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			nodes := five(t)
			list, fronts := proxies(t, nodes)
			l, other := open(t, fronts), newDriver(t, nodes)
			ctx := within(t, 60*time.Second)
			lock, err := l.Acquire(ctx, t.Name())
			must(t, err)
			onAllFive(t, nodes)
			next := driverClaim(t.Name(), 30*time.Second, true)
			var w *locktest.Acquisition[driver.Grant]
			if waiting {
				w = begin(ctx, other, next)
				waits(t, connect(t, nodes...), t.Name(), 1)
			}
			for _, p := range list {
				p.SwallowReply(isRelease, 0)
			}
			must(t, lock.Release(ctx))
			if waiting {
				w.Granted(t, 10*time.Second)
				must(t, other.Release(ctx, next))
			}
		})
	}
}

// The driver too says that a name was released when it is asked again.
func TestReleaseIsRepeated(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	b := newDriver(t, fronts)
	ctx := within(t, 60*time.Second)
	c := driverClaim(t.Name(), 30*time.Second, false)
	take(t, b, c)
	for _, p := range list {
		p.SwallowReply(isRelease, 0)
	}
	eventually.Is(t, "released", func() bool {
		err := b.Release(ctx, c)
		if errors.Is(err, driver.ErrGone) {
			t.Fatal(err)
		}
		return err == nil
	})
	must(t, b.Release(ctx, c))
}

// A node that has fallen silent while the lock was held is not waited for by its release, once that
// is known; and it is told when it answers again.
func TestReleaseDoesNotWaitForSilentNode(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	list, fronts := proxies(t, nodes)
	clients, pass := connect(t, fronts...), make(chan struct{})
	clients[1].AddHook(delays(func(args []any) {
		if len(args) == 11 { // a release: the client would give up after 5 s
			<-pass
		}
	}))
	b := newDriverOver(t, clients, WithNodeTimeout(20*time.Second))
	ctx := within(t, 60*time.Second)
	c := driverClaim(t.Name(), 30*time.Second, false)
	take(t, b, c)
	onAllFive(t, nodes)
	list[1].Freeze()
	eventually.Is(t, "it is known to be silent", func() bool {
		_, _ = b.Look(ctx, t.Name())
		return b.nodes[1].silent.Load()
	})
	inTime := locktest.Limit(t, 10*time.Second)
	must(t, b.Release(ctx, c))
	inTime("the release")
	list[1].Heal()
	close(pass)
	nothingLeft(t, nodes)
}

// A node that could not be told of the end of a waiter gives the name, if it grants it that later, to others.
func TestNodeThatWasNotToldOfTheEnd(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	clients := connect(t, nodes...)
	var away atomic.Bool
	clients[0].AddHook(fails(func(args []any) bool { return len(args) == 11 && away.Load() }))
	a, b, ctx := newDriver(t, nodes), newDriverOver(t, clients), within(t, 2*time.Minute)
	held, c := driverClaim(t.Name(), 10*time.Minute, false), driverClaim(t.Name(), 10*time.Minute, true)
	take(t, a, held)
	onAllFive(t, nodes)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	w := begin(waiting, b, c)
	queue := func() int64 { return connect(t, nodes[0])[0].LLen(ctx, queueKey(t.Name())).Val() }
	eventually.Is(t, "it waits there", func() bool { return queue() == 1 })
	waits(t, connect(t, nodes...), t.Name(), 1)
	away.Store(true)
	cancel()
	<-w.Done
	must(t, b.Abandon(ctx, c))
	p := stateOf(c).places[0]
	eventually.Within(t, time.Minute, "the node is given up", func() bool {
		p.calls.Lock()
		defer p.calls.Unlock()
		return !p.at.Touched
	})
	away.Store(false)
	if queue() != 1 {
		t.Fatal("it does not wait there any more")
	}
	must(t, a.Release(ctx, held))
	nothingLeft(t, nodes)
}

// fails is a hook of a client that says which commands cannot be sent.
type fails func(args []any) bool

func (fails) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (fails) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (f fails) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if f(cmd.Args()) {
			return &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the node is away")}
		}
		return next(ctx, cmd)
	}
}

// A holder whose lock is not renewed is told of keys that were deleted by hand, too, also when
// another holds the name.
func TestLeaseIsConfirmed(t *testing.T) {
	t.Parallel()
	nodes := five(t)
	l, other := open(t, nodes), open(t, nodes)
	ctx := within(t, 60*time.Second)
	lock, err := l.Acquire(ctx, t.Name(), locker.WithLease(time.Minute))
	must(t, err)
	for _, c := range connect(t, nodes...) {
		must(t, c.Del(ctx, lockKey(t.Name())).Err())
	}
	next, err := other.Acquire(ctx, t.Name())
	must(t, err)
	locktest.Lost(t, lock, 10*time.Second)
	release(t, next)
}

// A release that a minority of the nodes refused is not refused: the others may yet do it.
func TestMinorityDoesNotRefuse(t *testing.T) {
	no := fmt.Errorf("%w: NOPERM", driver.ErrRefused)
	down := errors.New("connection refused")
	for _, row := range []struct {
		errs    []error
		refused bool
	}{
		{[]error{no, down, down, down, down}, false},
		{[]error{no, no, down, down, down}, false},
		{[]error{no, no, no, down}, true},
	} {
		err := &QuorumError{Nodes: 5, Errs: row.errs}
		if got := errors.Is(err, driver.ErrRefused); got != row.refused {
			t.Errorf("%v: refused %v", err, got)
		}
		if !errors.Is(err, down) || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%v does not say all", err)
		}
	}
}
