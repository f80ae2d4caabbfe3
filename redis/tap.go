package redis

import (
	"bytes"
	"net"
	"os"
	"strconv"
	"time"
)

// tap is the connection of a line. It hands over one whole message at a time: who reads
// may stop between any two of them, and another go on. (go-redis reads as much as there
// is, and loses its place if its time is over within a message.)
//
// Only the one who has the turn to read uses it; see turn.go.
type tap struct {
	net.Conn
	room  []byte
	buf   []byte // what was received and has not been handed over, in room
	ready int    // how much of that is what is left of a message
	err   error  // why nothing more comes
	led   bool   // the one who reads does so for a moment only
}

const (
	// tapSize is what a message has room in, as a rule.
	tapSize = 1 << 10
	// biggest is how much a server says at most in one piece.
	biggest = 1 << 29
)

// Read hands over a message, or a part of one if p is too small.
func (t *tap) Read(p []byte) (int, error) {
	for t.ready == 0 {
		if t.ready = message(t.buf); t.ready > 0 {
			break
		}
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, t.buf[:t.ready])
	t.ready -= n
	t.buf = t.buf[n:]
	return n, nil
}

// fill waits for more. Who reads for a moment only is not told that the connection has
// broken: go-redis would repair it then and there.
func (t *tap) fill() error {
	if t.err == nil {
		t.makeRoom()
		n, err := t.Conn.Read(t.buf[len(t.buf):cap(t.buf)])
		t.buf = t.buf[:len(t.buf)+n]
		if isTimeout(err) {
			return err
		}
		if t.err = err; n > 0 {
			return nil
		}
	}
	if t.led {
		return os.ErrDeadlineExceeded
	}
	return t.err
}

func (t *tap) makeRoom() {
	if len(t.buf)+tapSize/2 > len(t.room) {
		t.room = make([]byte, tapSize+2*len(t.buf))
	}
	if len(t.buf) == 0 || cap(t.buf)-len(t.buf) < tapSize/2 {
		t.buf = t.room[:copy(t.room, t.buf)]
	}
}

// SetReadDeadline is what go-redis asks for before it reads.
func (t *tap) SetReadDeadline(at time.Time) error {
	if t.led {
		return nil // it was set already, and go-redis's clock is too coarse
	}
	return t.Conn.SetReadDeadline(at)
}

// message is how long the message is with which b begins, 0 if it is not complete. What
// is none is left to those who read.
func message(b []byte) int {
	at := 0
	for left := 1; left > 0; left-- {
		line, _, ok := bytes.Cut(b[at:], []byte("\r\n"))
		if !ok {
			return 0
		}
		if len(line) == 0 {
			return len(b)
		}
		at += len(line) + 2
		n := 0
		switch line[0] {
		case '*', '>', '~', '%', '|', '$', '=', '!':
			var err error
			if n, err = strconv.Atoi(string(line[1:])); err != nil || n > biggest {
				return len(b)
			}
		}
		switch line[0] {
		case '*', '>', '~':
			left += max(n, 0)
		case '%':
			left += 2 * n
		case '|':
			left += 2*n + 1 // what it says something of follows
		case '$', '=', '!':
			if n >= 0 {
				at += n + 2
			}
		}
		if at > len(b) {
			return 0
		}
	}
	return at
}
