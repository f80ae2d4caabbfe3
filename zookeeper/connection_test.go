package zookeeper

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"

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

// When the library comes back to its session it asks to set its watches again, for changes after the last one that it
// knows by then, which an answer may have moved on beyond one that nobody was told of. So it is to know of none: all watches
// are told of a change. Only the server is told which was the last, so that it does not let in who knows more than it.
func TestWatchesAreSetAgainFromTheBeginning(t *testing.T) {
	const known, later = int64(100), int64(200)
	ours, server := net.Pipe()
	defer server.Close()
	s := &session{clock: locker.SystemClock(), changed: make(chan struct{}), zxid: known}
	c := &connection{Conn: ours, session: s, in: bufio.NewReader(ours)}
	sent := make(chan []byte, 1)
	go func() {
		frame, err := readFrame(server)
		if err != nil {
			t.Error(err)
		}
		sent <- frame
	}()
	// version, zxid, timeout, session, password
	if _, err := c.Write(protocolFrame(t, int32(0), int64(0), int32(1000), int64(7), make([]byte, 20))); err != nil {
		t.Fatal(err)
	}
	if zxid := int64(binary.BigEndian.Uint64((<-sent)[8:])); zxid != known {
		t.Errorf("the server is told of change %d, want %d", zxid, known)
	}
	c.opened = true
	go func() { _, _ = server.Write(protocolFrame(t, int32(5), later, int32(0), []byte("data"))) }() // xid, zxid, error
	answer := make([]byte, 4+4+8+4+4)
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	if want := protocolFrame(t, int32(5), int64(0), int32(0), []byte("data")); !bytes.Equal(answer, want) {
		t.Errorf("the library reads %q, want %q", answer, want)
	}
	if s.zxid != later {
		t.Errorf("the last change is %d, want %d", s.zxid, later)
	}
}
