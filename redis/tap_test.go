package redis

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawn makes one of the messages that a server sends.
func drawn(t *rapid.T, depth int) string {
	kinds := "+-:$_,#(=!"
	if depth > 0 {
		kinds += "*>~%|"
	}
	kind := rapid.SampledFrom([]byte(kinds)).Draw(t, "kind")
	several := func(n int) string {
		var all strings.Builder
		for range n {
			all.WriteString(drawn(t, depth-1))
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

func inPieces(t *rapid.T, all []byte) *pieces {
	c := &pieces{}
	for rest := all; len(rest) > 0; {
		n := rapid.IntRange(0, min(len(rest), 700)).Draw(t, "piece")
		c.next, rest = append(c.next, rest[:n:n]), rest[n:]
	}
	return c
}

// Whatever comes, in whatever pieces, is handed over whole, and one whose time is over has
// not had a part of a message.
func TestTap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		ends := map[int]bool{0: true}
		for range rapid.IntRange(1, 8).Draw(t, "messages") {
			m := drawn(t, 2)
			if n := message([]byte(m)); n != len(m) {
				t.Fatalf("%q has %d bytes, not %d", m, len(m), n)
			}
			all = append(all, m...)
			ends[len(all)] = true
		}
		tapped := &tap{Conn: inPieces(t, all)}
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
	for _, text := range []string{"\r\n", "*x\r\n+1\r\n", "$99999999999999999999\r\n", "$600000000\r\n", ">9223372036854775807\r\n",
		"*3\r\n$7\r\nmessage\r\n$600000000\r\n", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$9223372036854775807\r\n", "*3\r\n\r\n", "*3\r\n$x\r\n"} {
		if n := message([]byte(text)); n != len(text) {
			t.Errorf("%q: %d", text, n)
		}
		if _, _, ok := said([]byte(text)); ok {
			t.Errorf("%q: said", text)
		}
	}
}

// What somebody said on a channel is overheard as it is. Anything else is left for those who
// read, whole and in its place.
func TestOverhear(t *testing.T) {
	t.Parallel()
	type message struct{ channel, text, other string }
	rapid.Check(t, func(t *rapid.T) {
		var want []message
		var all []byte
		text := rapid.SampledFrom([]string{"", "\r\n", "*3\r\n$7\r\nmessage\r\n", "word", strings.Repeat("x", 3000)})
		for range rapid.IntRange(1, 8).Draw(t, "messages") {
			kind := rapid.SampledFrom([]string{"message", "smessage", "pmessage", "subscribe", "", "any"}).Draw(t, "kind")
			m := message{channel: text.Draw(t, "channel"), text: text.Draw(t, "text")}
			raw := fmt.Sprintf("%s3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", rapid.SampledFrom([]string{"*", ">"}).Draw(t, "protocol"),
				len(kind), kind, len(m.channel), m.channel, len(m.text), m.text)
			switch kind {
			case "any":
				raw = drawn(t, 2)
				fallthrough
			case "pmessage", "subscribe", "":
				m = message{other: raw}
			}
			want, all = append(want, m), append(all, raw...)
		}
		tapped := &tap{Conn: inPieces(t, all)}
		for _, m := range want {
			var got message
			var ok bool
			for !ok && tapped.ready == 0 && tapped.err == nil {
				got.channel, got.text, ok = tapped.overhear()
			}
			if p := make([]byte, len(all)); !ok {
				n, err := tapped.Read(p)
				if err != nil {
					t.Fatal(err)
				}
				got = message{other: string(p[:n])}
			}
			if got != m {
				t.Fatalf("got %q, want %q", got, m)
			}
		}
	})
}

// Who overhears is not told that the connection has broken; who reads on after that is.
func TestTapBreaks(t *testing.T) {
	t.Parallel()
	one, other := net.Pipe()
	tapped := &tap{Conn: one}
	go other.Close()
	if _, _, ok := tapped.overhear(); ok {
		t.Error("overheard something")
	}
	if _, err := tapped.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}
