package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker"
)

// oddNames are names that somebody has stumbled over somewhere: in a path, a key, a
// pattern, a hash tag, a shell, or in what looks the same and is not.
var oddNames = []string{
	"a", "A", "b", "ab", "a/b", "a/", "/a", "/", "//", "a//b", "/a/b/", "a b", "a ", " a", " ", "  ",
	".", "..", "...", "./a", "../a", "a/..", "a/../b", "a.", ".a",
	"{a}", "{a}b", "a{b}", "{}", "{", "}", "{{a}}", "}a{",
	"%", "%2F", "%2f", "a%2Fb", "%00", "%%", "%25", "_", "__", "-", "a-b", "a_b",
	"zookeeper", "/zookeeper", "quota", "lock", "lock-", "lock-0000000001", "_c_0123456789abcdef0123456789abcdef-lock-0000000001", "0000000001",
	"*", "?", "[a]", "a*", "\\", "\\a", "$", "^", "~", "#", "@", "!", "&", "|", ";", ":", "a:b", "a:", ":a", "a::b", "a,b", "=", "a=b", "+", "(", ")", "<", ">", "'", "\"", "`",
	"\x00", "a\x00", "\x00a", "a\x00b", "\x01", "\n", "a\n", "\r\n", "\t", "\x7f", "\x1b[0m",
	"\xff", "\xfe\xff", "\x80", "a\xff", "\xc3\x28", "\xed\xa0\x80", "\ufeff", "\ufffd", "\ufff0", "\uf8ff", "\U000f0000",
	"é", "e\u0301", "É", "ß", "SS", "ss", "ı", "i", "I", "İ", "ﬁ", "fi", "Ａ",
	"🔒", "👩‍👩‍👧", "日本語", "\u202eabc", "a\u200bb", "a\u00a0b",
	"nil", "null", "true", "0", "00", "-1", "1e3", "config", "queue:a", "a:queue", "a:token", "token", "channel",
	"SELECT", "FLUSHALL\r\n", "PING",
}

var nameCases = []*testCase{
	newCase("Names/Odd", 11).apart().proves(
		"Any non-empty string is a name, and distinct names never meet: \"a\", \"A\", \"a/b\", \"ab\", \"a \", \"..\", \"{a}b\", \"zookeeper\", NUL, emoji.",
		func(c *C) { c.distinct(oddNames, true) }),
	newCase("Names/Random", 11).proves(
		"Any non-empty string of bytes is a name, and distinct names never meet.",
		func(c *C) {
			r := rand.New(rand.NewPCG(c.seed, 1))
			var names []string
			for range 10 {
				base := []byte(c.mine())
				for range 1 + r.IntN(5) {
					base = append(base, "aZ/.%{} _-:\x00\xff"[r.IntN(13)])
				}
				x := string(base)
				// And what a careless encoding takes for the same.
				names = append(names, x, strings.ToLower(x), strings.ToUpper(x), x+" ", x+"/", "/"+x, x+".",
					x+"\x00", x+"\xff", x+"\xfe", x+string(rune(r.IntN(0x3000))))
			}
			slices.Sort(names)
			c.distinct(slices.Compact(names), false)
		}),
	newCase("Names/Prefixes", 11).proves(
		"Distinct names never meet, also when one begins with the other, is held, and the other is waited for.",
		func(c *C) {
			for _, other := range []string{c.x + "/b", c.x + "b", c.x + " ", c.x + "/", c.x + "%", c.x + "\x00", "/" + c.x, c.x + "/b/c"} {
				a, b := c.open(), c.open()
				long := a.acquire(other)
				p := a.queue(other)
				b.free(c.x, soon)
				short := b.acquire(c.x)
				q := a.begin(c.ctx, c.x)
				c.release(long)
				c.release(p.held(soon))
				q.cancel()
				q.returned(soon)
				c.release(short)
			}
		}),
	newCase("Names/Longest", 11).proves(
		"Any string of up to 1,024 bytes is a name, whatever the bytes.",
		func(c *C) {
			var names []string
			for _, fill := range []string{"a", "/", ".", "%", " ", "\x00", "\xff", "{", "é", "🔒", "Z"} {
				head := c.name("")
				body := strings.Repeat(fill, locker.MaxName)[:locker.MaxName-len(head)]
				names = append(names, head+body, head+body[:len(body)-1], head+body[:len(body)-1]+"z")
			}
			c.distinct(names, false)
		}),
	newCase("Names/Invalid", 11).proves(
		"Names that are empty or longer than 1,024 bytes get ErrInvalidName.",
		func(c *C) {
			l := c.open()
			for _, name := range []string{"", strings.Repeat("a", locker.MaxName+1), strings.Repeat("é", locker.MaxName)} {
				for _, acquire := range l.ways() {
					c.refused(locker.ErrInvalidName, c.ctx, acquire, name)
				}
			}
		}),
	newCase("Names/Name", 11).proves(
		"Name is the name that was taken, byte for byte.",
		func(c *C) {
			l := c.open()
			for _, name := range []string{c.name("x"), c.name("a/../b\x00\xff")} {
				h := l.acquire(name)
				if h.Name() != name {
					c.errorf("acquired %q, Name is %q", name, h.Name())
				}
				c.release(h)
			}
		}),
}

// distinct has one Locker take all names and hold them together: two that meet
// block each other. Then others find each of them taken. Whole names are those that
// other programs might use on the same server, too.
func (c *C) distinct(names []string, whole bool) {
	c.tb.Helper()
	l, other := c.open(), c.open()
	held := make([]Holding, len(names))
	each(len(names), func(i int) {
		ctx, cancel := context.WithTimeout(c.ctx, 2*soon)
		defer cancel()
		h, err := l.Acquire(ctx, names[i])
		if err != nil {
			c.errorf("%s cannot be taken together with the others: %v", brief(names[i]), err)
			return
		}
		held[i] = h
	})
	each(len(names), func(i int) {
		if held[i] != nil {
			other.taken(names[i])
		}
	})
	each(len(names), func(i int) {
		if held[i] != nil {
			c.alive(held[i], "among odd names")
			c.release(held[i])
		}
	})
	if !whole {
		c.nothingLeft(cleanupBound)
	}
}

func brief(name string) string {
	if len(name) > 100 {
		return fmt.Sprintf("%q... of %d bytes", name[:80], len(name))
	}
	return fmt.Sprintf("%q", name)
}
