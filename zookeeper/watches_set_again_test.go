package zookeeper

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
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

func TestSplitWatches(t *testing.T) {
	put := func(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }
	frame := put(put(put(nil, 0), 77), opSetWatches)
	frame = binary.BigEndian.AppendUint64(frame, 1234)
	var want []string
	for list := range 3 {
		frame = put(frame, 20*list)
		for i := range 20 * list {
			path := fmt.Sprintf("/%d/%d/%s", list, i, strings.Repeat("x", 30*i))
			frame = append(put(frame, len(path)), path...)
			want = append(want, path)
		}
	}
	var got []string
	for _, part := range splitWatches(frame) {
		if string(part[4:20]) != string(frame[4:20]) || int(binary.BigEndian.Uint32(part)) != len(part)-4 {
			t.Fatalf("head %q", part[:20])
		}
		rest := part[20:]
		for list := range 3 {
			n := binary.BigEndian.Uint32(rest)
			rest = rest[4:]
			for range n {
				size := binary.BigEndian.Uint32(rest)
				path := string(rest[4:][:size])
				if path[1] != byte('0'+list) {
					t.Errorf("%s is in list %d", path, list)
				}
				got = append(got, path)
				rest = rest[4+size:]
			}
		}
		if len(rest) > 0 {
			t.Errorf("%q is left", rest)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}
