package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

// once tests a condition until it is met. For what no event tells.
func once(t testing.TB, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !met(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// steal ends the session of d from another connection, as an operator's tool or a
// confused client can. The session's owner takes it back when it can, so it is tried
// until it has worked.
func steal(t testing.TB, addr string, d *backend, id int64, password []byte) {
	t.Helper()
	open := make(encoder, 4)
	open.int32(0)
	open.int64(0)
	open.int32(10_000)
	open.int64(id)
	open.string(string(password))
	once(t, "the session to be closed from elsewhere", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = conn.Write(append(open.frame(), request(1, opClose).frame()...))
		_, _ = io.Copy(io.Discard, conn)
		now, _, _ := d.session.state()
		return now != id
	})
}

// spied is a session whose password is known.
func spied(t testing.TB, addr string, opts ...locker.Option) (locker.Locker, *backend, func()) {
	t.Helper()
	s := spy(t, addr)
	l, d := both(t, []string{s.addr()}, opts...)
	return l, d, func() {
		s.mu.Lock()
		id, password := s.id, s.password
		s.mu.Unlock()
		steal(t, addr, d, id, password)
	}
}

func TestNegotiatedTimeoutIsRead(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	for ask, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: time.Second,     // the server's least
		5 * time.Second:        4 * time.Second, // a tick less
		time.Hour:              time.Minute,     // its most
	} {
		d := raw(t, []string{z.Addr()}, locker.WithTTL(ask))
		if _, _, got := d.session.state(); got != want {
			t.Errorf("asked for %v: %v, want %v", ask, got, want)
		}
		c, _ := claim(t, name(t))
		g := take(t, d, c)
		if left := g.Until.Sub(d.clock.Now()); left > want || left < want/2 {
			t.Errorf("session of %v: held for %v", want, left)
		}
	}
}

// The session is closed from elsewhere: its nodes are gone at once, and its next
// holder is not far.
func TestSessionClosedFromElsewhere(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	l, _, end := spied(t, z.Addr())
	n, m := name(t), name(t)
	lock, err := l.Acquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	// A waiter of the same session, for another name.
	other := open(t, []string{z.Addr()})
	held, err := other.Acquire(within(t, time.Minute), m)
	if err != nil {
		t.Fatal(err)
	}
	turn := make(chan error, 1)
	go func() {
		lock, err := l.Acquire(within(t, time.Minute), m)
		if err == nil {
			err = lock.Release(context.Background())
		}
		turn <- err
	}()
	op.length(m, 2)
	end()
	select {
	case <-lock.Context().Done(): // and not when the session would have expired
	case <-time.After(2 * time.Second):
		t.Fatal("not told")
	}
	if !errors.Is(context.Cause(lock.Context()), locker.ErrLost) {
		t.Errorf("cause: %v", context.Cause(lock.Context()))
	}
	if err := lock.Release(context.Background()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("release: %v", err)
	}
	op.length(m, 2) // it has queued anew
	again, err := l.Acquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() <= lock.Token() {
		t.Errorf("tokens %d, %d", lock.Token(), again.Token())
	}
	if err := held.Release(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
	if err := await(t, turn, "the waiter's turn"); err != nil {
		t.Error(err)
	}
	if err := again.Release(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
}

// The driver says so by itself, without being asked to renew.
func TestClosedSessionIsToldAtOnce(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	s := spy(t, z.Addr())
	d := raw(t, []string{s.addr()})
	c, lost := claim(t, name(t))
	take(t, d, c)
	steal(t, z.Addr(), d, s.id, s.password)
	if err := await(t, lost, "loss"); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("lost: %v", err)
	}
	if err := d.Release(within(t, time.Minute), c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: %v", err)
	}
}

// The library says nothing until it has reconnected, which may be long after the
// session has expired.
func TestPartitionIsToldBeforeTheNextHolder(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	for what, freeze := range map[string]func(p interface {
		Freeze()
		FreezeUp()
		FreezeDown()
	}){
		"both": func(p interface {
			Freeze()
			FreezeUp()
			FreezeDown()
		}) {
			p.Freeze()
		},
		"requests": func(p interface {
			Freeze()
			FreezeUp()
			FreezeDown()
		}) {
			p.FreezeUp()
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := inFront(t, z.Addr())
			a := open(t, []string{p.Addr()}, locker.WithTTL(2*time.Second))
			b := open(t, []string{z.Addr()})
			n := name(t)
			first, err := a.Acquire(within(t, time.Minute), n)
			if err != nil {
				t.Fatal(err)
			}
			lost := make(chan time.Time, 1)
			context.AfterFunc(first.Context(), func() { lost <- time.Now() })
			freeze(p)
			second, err := b.Acquire(within(t, time.Minute), n)
			granted := time.Now()
			if err != nil {
				t.Fatal(err)
			}
			if first.Context().Err() == nil {
				t.Fatal("two hold")
			}
			if at := await(t, lost, "loss"); at.After(granted) {
				t.Errorf("told %v after the next holder had it", at.Sub(granted))
			}
			p.Heal()
			if err := second.Release(within(t, time.Minute)); err != nil {
				t.Error(err)
			}
			// In a new session, and nothing of the old is left.
			third, err := a.Acquire(within(t, time.Minute), n)
			if err != nil {
				t.Fatal(err)
			}
			if third.Token() <= second.Token() {
				t.Errorf("tokens %d, %d", second.Token(), third.Token())
			}
			if err := third.Release(within(t, time.Minute)); err != nil {
				t.Error(err)
			}
		})
	}
}

// An answer that was long on its way does not stretch the time.
func TestTimeCountsFromTheSending(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	p := inFront(t, z.Addr())
	d := raw(t, []string{p.Addr()})
	_, _, timeout := d.session.state()
	const late = 500 * time.Millisecond
	p.Delay(0, late)
	c, _ := claim(t, name(t))
	g := take(t, d, c)
	if left := g.Until.Sub(d.clock.Now()); left > timeout-late {
		t.Errorf("%v left of %v after an answer that took %v", left, timeout, late)
	}
	if err := d.sync(); err != nil {
		t.Fatal(err)
	}
	d.Renew(within(t, time.Minute), []*driver.Claim{c}, func(_ *driver.Claim, until driver.Instant, err error) {
		if left := until.Sub(d.clock.Now()); err != nil || left > timeout-late {
			t.Errorf("renewed: %v left, %v", left, err)
		}
	})
	p.Heal()
	if err := d.Release(context.Background(), c); err != nil {
		t.Error(err)
	}
}

// What was granted in a session that has ended meanwhile is no grant.
func TestNobodyHoldsInASessionThatHasEnded(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	d := raw(t, []string{z.Addr()})
	c, lost := claim(t, name(t))
	p := newPlace(c, d.base)
	p.session = d.session.id + 1
	if d.session.hold(p) {
		t.Error("held")
	}
	p.session = d.session.id
	if !p.grant() || !d.session.hold(p) {
		t.Fatal("not held")
	}
	d.session.lose(p.session+1, zk.ErrSessionExpired)
	if err := await(t, lost, "loss"); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("lost: %v", err)
	}
}

// A server that takes connections and never answers must not keep the Locker from
// another until the session is over: the library would wait ten times as long.
func TestServerThatDoesNotAnswerIsLeft(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	p, q := inFront(t, z.Addr()), inFront(t, z.Addr())
	l := open(t, []string{p.Addr(), q.Addr()}, locker.WithTTL(6*time.Second))
	lock, err := l.Acquire(within(t, time.Minute), name(t))
	if err != nil {
		t.Fatal(err)
	}
	used, other := p, q
	if q.Stats().Open > 0 {
		used, other = q, p
	}
	other.BlackHole()
	used.Cut()
	once(t, "the other server to be tried", func() bool { return other.Stats().Accepted > 0 })
	once(t, "the first to be tried again", func() bool { return used.Stats().Open > 0 })
	if err := lock.Release(within(t, time.Minute)); err != nil {
		t.Errorf("release: %v", err)
	}
	other.Heal()
}

// The reply to a create is lost. Its node has to be found again, or the claim would
// wait for itself.
func TestCreateWhoseReplyIsLost(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	p := inFront(t, z.Addr())
	d := raw(t, []string{p.Addr()})
	n := name(t)
	warm, _ := claim(t, n)
	take(t, d, warm) // makes the queue
	if err := d.Release(context.Background(), warm); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		c, _ := claim(t, n)
		p.SwallowReply(carries(opMulti), 0)
		g := take(t, d, c)
		_, stat, err := op.Get(op.nodeOf(c))
		if err != nil || stat.Czxid != g.Token {
			t.Errorf("token %d, czxid %d, %v", g.Token, stat.Czxid, err)
		}
		op.length(n, 1)
		if err := d.Release(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		op.length(n, 0)
	}
	if got := p.Stats().Swallowed; got < 5 {
		t.Errorf("%d replies were swallowed", got)
	}
}

// The server that is asked whether the node is there may lag behind its leader. It
// has to be brought up to date first.
func TestNodeIsLookedForOnlyAfterSync(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	p := inFront(t, z.Addr())
	m := spy(t, p.Addr())
	d := raw(t, []string{m.addr()})
	first, _ := claim(t, name(t))
	take(t, d, first) // makes the queue
	if err := d.Release(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	m.ops = nil
	m.mu.Unlock()
	c, _ := claim(t, first.Name)
	p.SwallowReply(carries(opMulti), 0)
	take(t, d, c)
	m.mu.Lock()
	ops := slices.DeleteFunc(slices.Clone(m.ops), func(op int32) bool { return op == 11 || op == opGetData })
	m.mu.Unlock()
	if i := slices.Index(ops, opMulti); i < 0 || !slices.Equal(ops[i+1:], []int32{opSync, opGetChildren, opExists}) {
		t.Errorf("asked for %v", ops)
	}
	ctx, cancel := context.WithCancel(context.Background())
	lost, _ := claim(t, c.Name)
	p.FreezeDown()
	done := begin(ctx, d, lost)
	once(t, "the create to be asked for", func() bool { return m.asked(opMulti) == 2 })
	cancel()
	<-done
	p.Heal()
	if err := d.Abandon(within(t, time.Minute), lost); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	ops = slices.DeleteFunc(slices.Clone(m.ops), func(op int32) bool { return op == 11 || op == opGetData })
	m.mu.Unlock()
	if n := len(ops); !slices.Equal(ops[n-3:], []int32{opSync, opGetChildren, opDelete}) {
		t.Errorf("asked for %v", ops)
	}
	if err := d.Release(context.Background(), c); err != nil {
		t.Error(err)
	}
}

// The same, and nobody waits any more: then nothing may be left, however often the
// cleaning up fails as well.
func TestCreateWhoseReplyIsLostAndCleaningFails(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	p := inFront(t, z.Addr())
	l := open(t, []string{p.Addr()})
	n := name(t)
	if lock, err := l.Acquire(within(t, time.Minute), n); err != nil || lock.Release(context.Background()) != nil {
		t.Fatal(err)
	}
	p.FreezeDown()
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, n); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("acquire: %v", err)
	}
	op.length(n, 1) // the ghost
	p.Heal()
	for range 10 {
		time.Sleep(20 * time.Millisecond) // the fault is: cut again and again
		p.Cut()
	}
	op.length(n, 0)
	other := open(t, []string{z.Addr()})
	lock, err := other.TryAcquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	_ = lock.Release(context.Background())
}

// Requests are on their way when the connection breaks, and arrive later: they must
// have no effect after Abandon has said that nothing is left.
func TestCreateThatArrivesLateHasNoEffect(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	p, q := inFront(t, z.Addr()), inFront(t, z.Addr())
	d := raw(t, []string{p.Addr(), q.Addr()})
	used := p
	if q.Stats().Open > 0 {
		used = q
	}
	c, _ := claim(t, name(t))
	ctx, cancel := context.WithCancel(context.Background())
	used.FreezeUp()
	done := begin(ctx, d, c)
	once(t, "the create to be held", func() bool { return used.Stats().HeldUp > 0 })
	cancel()
	<-done
	w, _ := d.session.now()
	_ = w.Close() // and so through the other proxy
	if err := d.Abandon(within(t, 20*time.Second), c); err != nil {
		t.Fatal(err)
	}
	held := used.Stats().BytesUp
	used.Heal()
	once(t, "the create to arrive", func() bool { return used.Stats().HeldUp == 0 && used.Stats().BytesUp > held })
	for range 3 {
		if err := d.sync(); err != nil {
			t.Fatal(err)
		}
	}
	op.length(c.Name, 0)
}

// A delete is repeated because its reply was lost: that the node is gone is what was
// wanted.
func TestDeleteWhoseReplyIsLost(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	p := inFront(t, z.Addr())
	d := raw(t, []string{p.Addr()})
	c, _ := claim(t, name(t))
	take(t, d, c)
	p.SwallowReply(carries(opDelete), 0)
	if err := d.Release(context.Background(), c); !errors.Is(err, zk.ErrConnectionClosed) {
		t.Fatalf("release without a reply: %v", err)
	}
	if err := d.Release(within(t, time.Minute), c); err != nil {
		t.Errorf("release again: %v", err)
	}
	if err := d.Abandon(within(t, time.Minute), c); err != nil {
		t.Errorf("abandon: %v", err)
	}
}

func TestCallsObeyTheirContextWhileDisconnected(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	l := open(t, []string{z.Addr()})
	held, err := l.Acquire(within(t, time.Minute), "held")
	if err != nil {
		t.Fatal(err)
	}
	if err := z.Kill(); err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func(ctx context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := l.Acquire(ctx, "a"); return err },
		"try":     func(ctx context.Context) error { _, err := l.TryAcquire(ctx, "b"); return err },
		"release": func(ctx context.Context) error { return held.Release(ctx) },
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		start := time.Now()
		err := call(ctx)
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s took %v", what, took)
		}
		if err == nil || what == "acquire" && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
		if what != "release" && !errors.Is(err, zk.ErrNoServer) {
			t.Errorf("%s does not say that there is no server: %v", what, err)
		}
		cancel()
	}
	// Without a deadline a try fails all the same.
	if _, err := l.TryAcquire(context.Background(), "c"); !errors.Is(err, zk.ErrNoServer) {
		t.Errorf("try: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	_ = l.Close(ctx)
	if took := time.Since(start); took > time.Second {
		t.Errorf("close took %v", took)
	}
}

// Waiters wait while servers are away, and a holder keeps its lock if the session
// outlives the outage.
func TestRestartWithHolderAndWaiter(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	op := console(t, z.Addr())
	a, b := open(t, []string{z.Addr()}, locker.WithTTL(20*time.Second)), open(t, []string{z.Addr()})
	held, err := a.Acquire(within(t, time.Minute), "x")
	if err != nil {
		t.Fatal(err)
	}
	turn := make(chan *locker.Lock, 1)
	go func() {
		lock, err := b.Acquire(within(t, time.Minute), "x")
		if err != nil {
			t.Error(err)
		}
		turn <- lock
	}()
	op.length("x", 2)
	if err := z.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := z.Restart(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := held.Release(within(t, time.Minute)); err != nil {
		t.Errorf("release: %v", err)
	}
	next := await(t, turn, "the waiter's turn")
	if next.Token() <= held.Token() {
		t.Errorf("tokens %d, %d", held.Token(), next.Token())
	}
	if err := next.Release(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
}

// Cut again and again, more often than the library's event channel holds.
func TestManyDisconnects(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	p := inFront(t, z.Addr())
	l := open(t, []string{p.Addr()})
	n := name(t)
	held, err := l.Acquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		before := p.Stats().Accepted
		p.Cut()
		once(t, "a new connection", func() bool { return p.Stats().Accepted > before })
	}
	for i := range 20 {
		lock, err := l.Acquire(within(t, time.Minute), fmt.Sprint(n, i))
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(within(t, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if err := held.Context().Err(); err != nil {
		t.Errorf("lost: %v", context.Cause(held.Context()))
	}
	if err := held.Release(within(t, time.Minute)); err != nil {
		t.Error(err)
	}
}

// There is no way to forget a watch but to end it: waiters that gave up, and
// predecessors that did, leave none.
func TestCancelledWaitersLeaveNoWatch(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	op := console(t, z.Addr())
	d := raw(t, []string{z.Addr()})
	h, _ := claim(t, "a")
	take(t, d, h)
	for range 5 {
		var cancels []context.CancelFunc
		var claims []*driver.Claim
		var done []chan outcome
		for i := range 3 {
			ctx, cancel := context.WithCancel(context.Background())
			c, _ := claim(t, "a")
			claims, cancels, done = append(claims, c), append(cancels, cancel), append(done, begin(ctx, d, c))
			op.length("a", i+2)
		}
		for i, cancel := range cancels {
			cancel()
			<-done[i]
			if err := d.Abandon(within(t, time.Minute), claims[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Release(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	op.length("a", 0)
	once(t, "watches to go", func() bool { return strings.Contains(word(t, z, "wchs"), "Total watches:0") })
	w, _ := d.session.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watchers) != 0 || len(w.waiting) > 1 {
		t.Errorf("%d watchers and %d requests are left", len(w.watchers), len(w.waiting))
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	l := open(t, []string{z.Addr()}, locker.WithTTL(2*time.Second))
	n := name(t)
	start := time.Now()
	lock, err := l.Acquire(within(t, time.Minute), n, locker.WithLease(4*time.Second)) // longer than the session
	if err != nil {
		t.Fatal(err)
	}
	next, err := open(t, []string{z.Addr()}).Acquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 3500*time.Millisecond {
		t.Errorf("over after %v", took)
	}
	if !errors.Is(context.Cause(lock.Context()), locker.ErrLost) {
		t.Errorf("cause: %v", context.Cause(lock.Context()))
	}
	_ = next.Release(context.Background())
}

// A lease that outlasts the session ends with it.
func TestLeaseOverFrozenConnection(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	p := inFront(t, z.Addr())
	l := open(t, []string{p.Addr()}, locker.WithTTL(2*time.Second))
	n := name(t)
	lock, err := l.Acquire(within(t, time.Minute), n, locker.WithLease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	p.Freeze()
	next, err := open(t, []string{z.Addr()}).Acquire(within(t, time.Minute), n)
	if err != nil {
		t.Fatal(err)
	}
	if lock.Context().Err() == nil {
		t.Error("two hold")
	}
	_ = next.Release(context.Background())
	p.Heal()
}
