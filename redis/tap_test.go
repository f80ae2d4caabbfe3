package redis

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// said makes one of the messages that a server sends.
func said(t *rapid.T, depth int) string {
	kinds := "+-:$_,#(=!"
	if depth > 0 {
		kinds += "*>~%|"
	}
	kind := rapid.SampledFrom([]byte(kinds)).Draw(t, "kind")
	several := func(n int) string {
		var all strings.Builder
		for range n {
			all.WriteString(said(t, depth-1))
		}
		return all.String()
	}
	switch n := rapid.IntRange(-1, 3).Draw(t, "n"); kind {
	case '$', '=', '!':
		if n < 0 {
			return "$-1\r\n"
		}
		text := rapid.SampledFrom([]string{"", "\r\n", "*3\r\n", "word", strings.Repeat("x", 3000)}).Draw(t, "text")
		return fmt.Sprintf("%c%d\r\n%s\r\n", kind, len(text), text)
	case '*', '>', '~':
		return fmt.Sprintf("%c%d\r\n%s", kind, n, several(max(n, 0)))
	case '%':
		n = max(n, 0)
		return fmt.Sprintf("%%%d\r\n%s", n, several(2*n))
	case '|':
		n = max(n, 0)
		return fmt.Sprintf("|%d\r\n%s", n, several(2*n+1))
	}
	return string(kind) + rapid.SampledFrom([]string{"", "0", "OK", "$5"}).Draw(t, "line") + "\r\n"
}

// pieces is a connection on which things come in pieces. Where there is none the time of
// the one who reads is over.
type pieces struct {
	net.Conn
	next [][]byte
}

func (c *pieces) Read(p []byte) (int, error) {
	if len(c.next) == 0 {
		return 0, io.EOF
	}
	if len(c.next[0]) == 0 {
		c.next = c.next[1:]
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, c.next[0])
	if c.next[0] = c.next[0][n:]; len(c.next[0]) == 0 {
		c.next = c.next[1:]
	}
	return n, nil
}

// Whatever comes, in whatever pieces, is handed over whole, and one whose time is over has
// not had a part of a message.
func TestTap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		ends := map[int]bool{0: true}
		for range rapid.IntRange(1, 8).Draw(t, "messages") {
			m := said(t, 2)
			if n := message([]byte(m)); n != len(m) {
				t.Fatalf("%q has %d bytes, not %d", m, len(m), n)
			}
			all = append(all, m...)
			ends[len(all)] = true
		}
		c := &pieces{}
		for rest := all; len(rest) > 0; {
			n := rapid.IntRange(0, min(len(rest), 700)).Draw(t, "piece")
			c.next, rest = append(c.next, rest[:n:n]), rest[n:]
		}
		tapped := &tap{Conn: c}
		var got []byte
		for {
			p := make([]byte, rapid.IntRange(1, 2000).Draw(t, "room"))
			n, err := tapped.Read(p)
			got = append(got, p[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil && (!isTimeout(err) || !ends[len(got)]) {
				t.Fatalf("after %q: %v", got, err)
			}
		}
		if !bytes.Equal(got, all) {
			t.Fatalf("got %q of %q", got, all)
		}
	})
}

// What is no message is handed over as it is: those who read complain.
func TestTapOfNonsense(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"\r\n", "*x\r\n+1\r\n", "$99999999999999999999\r\n", "$600000000\r\n", ">9223372036854775807\r\n"} {
		if n := message([]byte(text)); n != len(text) {
			t.Errorf("%q: %d", text, n)
		}
	}
}

// Who reads for a moment does so until its own time is over, whatever go-redis sets.
func TestTapLed(t *testing.T) {
	t.Parallel()
	one, other := net.Pipe()
	tapped := &tap{Conn: one}
	tapped.lead(time.Now().Add(time.Minute))
	if err := tapped.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = other.Write([]byte("+OK\r\n")) }()
	if n, err := tapped.Read(make([]byte, 10)); n != 5 || err != nil {
		t.Error(n, err)
	}
}

// Who reads for a moment is told that it is over when the connection breaks; who reads on
// after that is told the truth.
func TestTapBreaks(t *testing.T) {
	t.Parallel()
	one, other := net.Pipe()
	tapped := &tap{Conn: one}
	if !tapped.lead(time.Now().Add(time.Minute)) {
		t.Fatal("no deadline")
	}
	go other.Close()
	if _, err := tapped.Read(make([]byte, 1)); !isTimeout(err) {
		t.Error(err)
	}
	tapped.led = false
	if _, err := tapped.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}
