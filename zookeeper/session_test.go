package zookeeper

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// steal ends the session of d from another connection, as an operator's tool or a
// confused client can. The session's owner takes it back when it can, so it is tried
// until it has worked.
func steal(t testing.TB, addr string, d *backend, id int64, password []byte) {
	t.Helper()
	open := binary.BigEndian.AppendUint32(nil, 4+8+4+8+4+16)
	open = binary.BigEndian.AppendUint32(open, 0)
	open = binary.BigEndian.AppendUint64(open, 0)
	open = binary.BigEndian.AppendUint32(open, 10_000)
	open = binary.BigEndian.AppendUint64(open, uint64(id))
	open = append(binary.BigEndian.AppendUint32(open, 16), password...)
	open = append(open, 0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5) // and close it
	eventually.Is(t, "the session to be closed from elsewhere", func() bool {
		conn, err := net.Dial("tcp", addr)
		must(t, err)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = conn.Write(open)
		_, _ = io.Copy(io.Discard, conn)
		return d.sessionID() != id
	})
}

// spied is a session whose password is known.
func spied(t testing.TB, addr string, opts ...locker.Option) (locker.Locker, *backend, func()) {
	t.Helper()
	s := newProtocolProxy(t, addr)
	l, d := both(t, []string{s.addr()}, opts...)
	return l, d, func() {
		id, password := s.session()
		steal(t, addr, d, id, password)
	}
}

func TestNegotiatedTimeoutIsRead(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	for ask, want := range map[time.Duration]struct {
		session time.Duration
		warns   bool
	}{
		time.Second:      {time.Second, true},      // the server's least
		6 * time.Second:  {4 * time.Second, false}, // one and a half ticks of 2 s less than a second more than the TTL
		19 * time.Second: {16*time.Second + 666*time.Millisecond, false},
		time.Hour:        {time.Minute, false}, // the server's most
	} {
		start, log := time.Now(), new(eventually.Output)
		d := raw(t, []string{z.Addr()}, locker.WithTTL(ask), locker.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		if got := d.granted(); got != want.session {
			t.Errorf("asked for %v: %v, want %v", ask, got, want.session)
		}
		c := claim(name(t))
		g := take(t, d, c)
		if left := g.Until.Sub(d.clock.Now()); left > want.session || left < want.session-time.Since(start) {
			t.Errorf("session of %v: held for %v", want.session, left)
		}
		warned := func() bool { return strings.Contains(log.String(), "no session as short") } // by a goroutine
		if want.warns {
			eventually.Is(t, "the warning", warned)
		} else if warned() {
			t.Errorf("asked for %v: %s", ask, log)
		}
	}
}

// Servers grant no session of an hour. Locks are then those of the session that there
// is.
func TestTTLLongerThanAnySession(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	l := open(t, []string{z.Addr()}, locker.WithTTL(time.Hour))
	lock, err := l.Acquire(within(t, 20*time.Second), name(t))
	must(t, err)
	if left := time.Until(lock.Deadline()); left > time.Minute || left < 30*time.Second {
		t.Errorf("held for %v", left)
	}
	if err := freed(context.Background(), lock); err != nil {
		t.Error(err)
	}
}

// The session is closed from elsewhere: its nodes are gone at once, and its next
// holder is not far.
func TestSessionClosedFromElsewhere(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	l, _, end := spied(t, z.Addr(), locker.WithTTL(time.Minute))
	n, m := name(t), name(t)
	lock, err := l.Acquire(within(t, time.Minute), n)
	must(t, err)
	// A waiter of the same session, for another name.
	other := open(t, []string{z.Addr()})
	held, err := other.Acquire(within(t, time.Minute), m)
	must(t, err)
	turn := make(chan error, 1)
	go func() {
		lock, err := l.Acquire(within(t, 5*time.Minute), m)
		if err == nil {
			err = freed(context.Background(), lock)
		}
		turn <- err
	}()
	op.length(m, 2)
	end()
	locktest.Lost(t, lock, 20*time.Second) // and not when the session would have expired
	if err := lock.Release(context.Background()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("release: %v", err)
	}
	op.length(m, 2) // it has queued anew
	again, err := l.Acquire(within(t, time.Minute), n)
	must(t, err)
	if again.Token() <= lock.Token() {
		t.Errorf("tokens %d, %d", lock.Token(), again.Token())
	}
	if err := freed(within(t, time.Minute), held); err != nil {
		t.Error(err)
	}
	if err := await(t, turn, "the waiter's turn"); err != nil {
		t.Error(err)
	}
	if err := freed(within(t, time.Minute), again); err != nil {
		t.Error(err)
	}
}

// An answer that was long on its way does not stretch the time.
func TestTimeCountsFromTheSending(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := front(t, z.Addr())
	d := raw(t, []string{p.Addr()})
	timeout := d.granted()
	const late = 500 * time.Millisecond
	p.Delay(0, late)
	c := claim(name(t))
	g := take(t, d, c)
	if left := g.Until.Sub(d.clock.Now()); left > timeout-late {
		t.Errorf("%v left of %v after an answer that took %v", left, timeout, late)
	}
	if _, err := d.session.conn.Sync("/"); err != nil {
		t.Fatal(err)
	}
	until, err := locktest.Renewed(t, d, c)
	if left := until.Sub(d.clock.Now()); err != nil || left > timeout-late {
		t.Errorf("renewed: %v left, %v", left, err)
	}
	p.Heal()
	if err := d.Release(context.Background(), c); err != nil {
		t.Error(err)
	}
}

// What was granted in a session that has ended meanwhile is no grant.
func TestNobodyHoldsInASessionThatHasEnded(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	d := raw(t, []string{z.Addr()})
	c := claim(name(t))
	id := d.sessionID()
	st := &claimState{claim: c, session: id + 1}
	if _, err := d.grant(st); !errors.Is(err, errAgain) {
		t.Errorf("in another session: %v", err)
	}
	st.session = id
	if _, err := d.grant(st); err != nil {
		t.Fatal(err)
	}
	d.session.set(func() { d.session.id = 0 })
	c.State = st
	if err := renewed(t, d, c); !errors.Is(err, driver.ErrGone) || !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("confirmed: %v", err)
	}
}

// The reply to a create is lost, and the session given up while the server still keeps it alive: the node that is found
// is no use, and nobody has to wait for it to go by itself.
func TestNodeOfAnotherSessionIsReplaced(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op, p := console(t, z.Addr()), front(t, z.Addr())
	d := raw(t, []string{p.Addr()}, locker.WithTTL(8*time.Second))
	c := claim(name(t))
	plantQueue(t, op, c.Name)
	before := p.Stats().Accepted
	p.FreezeDown()
	turn := begin(within(t, time.Minute), d, c)
	_, old, err := op.Get(op.nodeOf(c))
	must(t, err)
	// The first connection after that asks for the session, and the second, which comes after it was over, for another.
	eventually.Is(t, "a second connection", func() bool { return p.Stats().Accepted >= before+2 })
	p.Heal()
	g := turn.Granted(t, patience)
	op.length(c.Name, 1)
	_, stat, err := op.Get(op.nodeOf(c))
	if err != nil || stat.EphemeralOwner == old.EphemeralOwner || stat.Czxid != g.Token>>spareBits {
		t.Errorf("the node is of session %#x, as before, or its czxid %d is not %d: %v",
			stat.EphemeralOwner, stat.Czxid, g.Token>>spareBits, err)
	}
	release(t, d, c)
}

// The answer, or the rest of it, comes just after its time was over: the connection is not in use.
func TestSessionOpenedTooLate(t *testing.T) {
	answer := protocolFrame(t, int32(0), int32(4000), int64(7), make([]byte, 20))
	for _, early := range []int{0, 20, len(answer)} {
		ours, server := net.Pipe()
		defer server.Close()
		s := &session{clock: locker.SystemClock(), log: discard, changed: make(chan struct{})}
		c := &connection{Conn: ours, session: s}
		c.in = bufio.NewReader(io.MultiReader(bytes.NewReader(answer[:early]), ours))
		over := make(chan struct{})
		c.late = time.AfterFunc(100*time.Millisecond, func() { c.fail(errLate); close(over) })
		if early == len(answer) {
			<-over
		}
		if n, err := c.Read(make([]byte, 4)); err == nil || !errors.Is(s.failure, errLate) || s.connected {
			t.Errorf("%d bytes were there: read %d, %v; connected: %v, %v", early, n, err, s.connected, s.failure)
		}
	}
}

// A Locker that only waits writes nothing. When its connection is over and the next server does not open the session
// soon, it goes back to the session, which the servers keep, and its waiters keep their places.
func TestWaiterKeepsItsSession(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	p := front(t, z.Addr())
	d := raw(t, []string{p.Addr()}, locker.WithTTL(40*time.Second))
	id := d.sessionID()
	d.session.set(func() { d.session.sure = d.clock.Now().Add(-time.Hour) }) // it has written nothing since
	if _, err := d.session.conn.Sync("/"); err != nil {
		t.Fatal(err)
	}
	before := p.Stats().Accepted
	p.FreezeDown()
	p.Cut()
	eventually.Is(t, "a second connection", func() bool { return p.Stats().Accepted >= before+2 })
	p.Heal()
	if again, err := d.usable(within(t, time.Minute), true); err != nil || again != id {
		t.Errorf("session %#x instead of %#x: %v", again, id, err)
	}
}
