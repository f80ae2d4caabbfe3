package redis

import (
	"bytes"
	"net"
	"strconv"
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
}

const (
	// tapSize is what a message has room in, as a rule.
	tapSize = 1 << 10
	// biggest is how much a server says at most in one piece.
	biggest = 1 << 29
)

var lineEnd = []byte("\r\n")

// Read hands over a message, or a part of one if p is too small.
func (t *tap) Read(p []byte) (int, error) {
	if err := t.await(); err != nil {
		return 0, err
	}
	n := copy(p, t.buf[:t.ready])
	t.took(n)
	return n, nil
}

// overhear returns the next message if it is one that somebody said on a channel. What else
// comes is left to go-redis.
func (t *tap) overhear() (channel, text string, ok bool) {
	if t.await() != nil {
		return "", "", false
	}
	if channel, text, ok = said(t.buf[:t.ready]); ok {
		t.took(t.ready)
	}
	return channel, text, ok
}

// await waits for a message.
func (t *tap) await() error {
	for t.ready == 0 {
		if t.ready = message(t.buf); t.ready == 0 {
			if err := t.fill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// took forgets what was handed over.
func (t *tap) took(n int) {
	t.ready -= n
	t.buf = t.buf[n:]
}

// fill waits for more.
func (t *tap) fill() error {
	if t.err != nil {
		return t.err
	}
	t.makeRoom()
	n, err := t.Conn.Read(t.buf[len(t.buf):cap(t.buf)])
	t.buf = t.buf[:len(t.buf)+n]
	if !isTimeout(err) {
		t.err = err
	}
	if n > 0 {
		return nil
	}
	return err
}

func (t *tap) makeRoom() {
	if len(t.buf)+tapSize/2 > len(t.room) {
		t.room = make([]byte, tapSize+2*len(t.buf))
	}
	if len(t.buf) == 0 || cap(t.buf)-len(t.buf) < tapSize/2 {
		t.buf = t.room[:copy(t.room, t.buf)]
	}
}

// message is how long the message is with which b begins, 0 if it is not complete. What
// is none is left to those who read.
func message(b []byte) int {
	at := 0
	for left := 1; left > 0; left-- {
		line, _, ok := bytes.Cut(b[at:], lineEnd)
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

// said takes a message apart that somebody said on a channel.
func said(b []byte) (channel, text string, ok bool) {
	var parts [3][]byte // the kind, the channel, and what was said
	head, b, _ := bytes.Cut(b, lineEnd)
	if string(head) != "*3" && string(head) != ">3" {
		return "", "", false
	}
	for i := range parts {
		var line []byte
		line, b, _ = bytes.Cut(b, lineEnd)
		if len(line) == 0 || line[0] != '$' {
			return "", "", false
		}
		n, err := strconv.Atoi(string(line[1:]))
		if err != nil || n < 0 || n > len(b)-len(lineEnd) { // or nonsense, whatever its length
			return "", "", false
		}
		parts[i], b = b[:n], b[n+len(lineEnd):]
	}
	kind := string(parts[0])
	return string(parts[1]), string(parts[2]), kind == "message" || kind == "smessage"
}
