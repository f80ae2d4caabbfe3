package zookeeper

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
)

// deaf returns a connected wire whose other end reads nothing, and that other end.
func deaf(t *testing.T) (*wire, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{clock: locker.SystemClock(), log: discard, life: context.Background(), turn: make(chan struct{})}
	w := newWire(s, conn)
	w.late = time.NewTimer(time.Hour)
	t.Cleanup(func() { _, _ = w.Close(), other.Close() })
	return w, other
}

// The core calls us on the caller's goroutine, which must return when its context ends
// also where the connection takes nothing any more: nobody waits for writing.
func TestNobodyWaitsForTheConnectionToTakeRequests(t *testing.T) {
	w, other := deaf(t)
	const many, size = 200, 64 << 10 // more than any system buffers
	asked := make(chan error, 1)
	go func() {
		for range many {
			w.post(pathCall(opSync, "/"+strings.Repeat("x", size)))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		asked <- w.ask(ctx, syncCall("/"))
	}()
	if err := await(t, asked, "the end of a call by its context"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ask: %v", err)
	}
	// Nothing is lost, and the order is kept.
	for i := range many + 1 {
		frame, err := readFrame(other)
		if err != nil {
			t.Fatal(err)
		}
		if d := (&decoder{rest: frame[4:]}); d.int32() != ourXid+int32(i)+1 {
			t.Fatalf("request %d came as another", i)
		}
		if i < many != (len(frame) > size) {
			t.Fatalf("request %d has %d bytes", i, len(frame))
		}
	}
}

// Those who wait for an answer learn that there will be none.
func TestDeadWireAnswersNobody(t *testing.T) {
	w, other := deaf(t)
	asked := make(chan error, 1)
	go func() { asked <- w.ask(context.Background(), syncCall("/")) }()
	if _, err := readFrame(other); err != nil {
		t.Fatal(err)
	}
	_ = other.Close()
	if _, err := w.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
	if err := await(t, asked, "the end of a call"); !errors.Is(err, errBroken) {
		t.Errorf("ask: %v", err)
	}
	if err := w.ask(context.Background(), syncCall("/")); !errors.Is(err, errBroken) {
		t.Errorf("ask afterwards: %v", err)
	}
}

// An answer to the opening that comes just when it is too late must not open a session
// that was given up in the same moment.
func TestSessionIsEitherOpenedOrGivenUp(t *testing.T) {
	opening := make(encoder, 4)
	opening.int32(0)
	opening.int32(10_000)
	opening.int64(7)
	opening.string("password")
	for _, late := range []bool{true, false} {
		w, other := deaf(t)
		s := w.home
		s.id = 7
		if late {
			s.unheard(w, io.ErrNoProgress)
		}
		err := w.sort(opening.frame())
		if !late {
			s.unheard(w, io.ErrNoProgress)
		}
		now, _ := s.now()
		if late != (err != nil) || late != (now == nil) || late != (s.forsaken == 7) {
			t.Errorf("late %v: %v, in use %v, given up %v", late, err, now != nil, s.forsaken == 7)
		}
		frame, err := readFrame(other)
		if err != nil {
			t.Fatal(err)
		}
		d := &decoder{rest: frame[8:]}
		if op := d.int32(); late != (op == opClose) {
			t.Errorf("late %v: asked for %d", late, op)
		}
		// Never again.
		again := make(encoder, 4)
		again.int32(0)
		again.int64(0)
		again.int32(10_000)
		again.int64(7)
		s.opening(again)
		if d := (&decoder{rest: again[sessionField:]}); late != (d.int64() == 0) {
			t.Errorf("late %v: wrong session asked for", late)
		}
	}
}
