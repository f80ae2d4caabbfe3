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
	w.opened = true
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
