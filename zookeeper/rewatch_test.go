package zookeeper

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
)

// protocolFrame returns a frame of the protocol with these fields behind its length.
func protocolFrame(t *testing.T, fields ...any) []byte {
	t.Helper()
	frame := make([]byte, 4)
	for _, f := range fields {
		var err error
		if frame, err = binary.Append(frame, binary.BigEndian, f); err != nil {
			t.Fatal(err)
		}
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// When the library comes back to its session it asks to set its watches again, for changes after the
// last one that it knows by then. The server is asked for those after the last one that was known when the
// connection began, and an answer that tells of a later one is not given to the library before.
func TestWatchesAreSetAgainFromTheBeginning(t *testing.T) {
	const known, later = int64(100), int64(200)
	ours, server := net.Pipe()
	defer server.Close()
	l := &link{
		Conn: ours, raw: ours, in: bufio.NewReader(ours), rewatch: make(chan struct{}),
		home: &session{clock: locker.SystemClock(), changed: make(chan struct{})},
	}
	sent := make(chan []byte, 2)
	go func() {
		for range cap(sent) {
			frame := make([]byte, 4)
			if _, err := io.ReadFull(server, frame); err != nil {
				return
			}
			frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
			_, _ = io.ReadFull(server, frame[4:])
			sent <- frame
		}
	}()
	// version, zxid, timeout, session, password
	if _, err := l.Write(protocolFrame(t, int32(0), known, int32(1000), int64(7), make([]byte, 20))); err != nil {
		t.Fatal(err)
	}
	<-sent
	l.opened.Store(true)

	var asked atomic.Bool
	begun := time.Now()
	read := make(chan bool)
	go func() {
		_, err := l.Read(make([]byte, 100))
		if err != nil {
			t.Error(err)
		}
		read <- asked.Load()
	}()
	if _, err := server.Write(protocolFrame(t, int32(5), later, int32(0))); err != nil { // xid, zxid, error
		t.Fatal(err)
	}
	asked.Store(true)
	// xid, operation, zxid, and a list of one path and two empty ones
	if _, err := l.Write(protocolFrame(t, int32(6), int32(opSetWatches), later, int32(1), int32(2), []byte("/x"), int32(0), int32(0))); err != nil {
		t.Fatal(err)
	}
	if zxid := int64(binary.BigEndian.Uint64((<-sent)[12:])); zxid != known {
		t.Errorf("asks for changes after %d, want %d", zxid, known)
	}
	if before := !<-read; before && time.Since(begun) < watchesWithin {
		t.Error("an answer was given to the library before it had asked for its watches")
	}
}
