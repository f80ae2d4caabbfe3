package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

var inspectCases = []*testCase{
	newCase("Inspect/Refused", 13).needing(noInspect|madeByLocker).proves(
		"A backend that does not offer Inspect and Names refuses them with ErrUnsupported.",
		func(c *C) {
			l := c.openLocker().locker
			c.expect(onlyErr(c.b.api.inspect(c.ctx, l, c.x)), locker.ErrUnsupported, "Inspect")
			for name, err := range c.b.api.names(c.ctx, l, "") {
				c.expect(err, locker.ErrUnsupported, "Names: %q", name)
			}
		}),
	newCase("Inspect/Positions", 13).needing(inspect|fair|madeByLocker).proves(
		"Inspect shows holders and waiters in the order of the queue: owner, ID, token, weight, since, time left.",
		func(c *C) {
			h := c.holder(locker.As("alice \x00\xff"))
			want := []locker.Position{{Owner: "alice \x00\xff", Weight: driver.All, Limit: driver.All, Held: true}}
			var waiting []*pending
			wait := func(p locker.Position, opts ...locker.AcquireOption) {
				waiting = append(waiting, c.open().begin(c.ctx, c.x, append(opts, locker.As(p.Owner))...))
				want = append(want, p)
				c.shown(c.x, len(want))
			}
			wait(locker.Position{Owner: "bob", Weight: driver.All, Limit: driver.All})
			if c.b.Shared {
				wait(locker.Position{Owner: "carol", Weight: 1, Limit: driver.All}, locker.Shared())
			}
			if c.b.Permits {
				wait(locker.Position{Owner: "dave", Weight: 2, Limit: 3}, locker.Permits(2, 3))
			}
			wait(locker.Position{Owner: "", Weight: driver.All, Limit: driver.All})
			for {
				var got []locker.Position
				var wrong string
				if !c.within(soon, func() bool {
					got = c.positions(c.x)
					wrong = mismatch(got, want, c.x)
					return wrong == ""
				}) {
					c.fatalf("%s", wrong)
				}
				if c.b.Fenced && got[0].Token != h.Token() {
					c.errorf("token %d, the holder has %d", got[0].Token, h.Token())
				}
				c.alive(h, "when it was inspected")
				c.release(h)
				if len(waiting) == 0 {
					break
				}
				h = waiting[0].held(soon)
				waiting, want = waiting[1:], want[1:]
				ahead := int64(0)
				for i, p := range want { // those that fit beside the first
					want[i].Held = driver.Fits(ahead, p.Weight, p.Limit)
					ahead += int64(p.Weight)
				}
			}
			c.shown(c.x, 0)
		}),
	newCase("Inspect/Nobody", 13).needing(inspect|madeByLocker).proves(
		"A name that nobody holds or wants is shown without anybody, and looking does not change that.",
		func(c *C) {
			for range 3 {
				if got := c.positions(c.x); len(got) > 0 {
					c.errorf("a name that nobody has used: %+v", got)
				}
			}
			c.open().free(c.x, soon)
			c.leftFree(c.x)
		}),
	newCase("Inspect/Together", 13).needing(inspect|shareable|madeByLocker).proves(
		"Inspect shows each of those who hold a name together.",
		func(c *C) {
			var held []Holding
			var ids []string
			for range 5 {
				held = append(held, c.holder(locker.Shared()))
			}
			for _, p := range c.shown(c.x, len(held)) {
				if !p.Held || p.Weight != 1 || p.Limit != driver.All {
					c.errorf("a shared holder is shown as %+v", p)
				}
				ids = append(ids, p.ID)
			}
			slices.Sort(ids)
			if len(slices.Compact(ids)) != len(held) {
				c.errorf("%d shared holders have the IDs %q", len(held), ids)
			}
			c.releaseAll(held, "when it was inspected")
		}),
	newCase("Inspect/Downgraded", 13).needing(inspect|downgrade|shareable|madeByLocker).proves(
		"Inspect shows the weight that a lock has now.",
		func(c *C) {
			h := c.openLocker().lock(c.x)
			c.downgrade(h)
			var got []locker.Position
			if !c.within(soon, func() bool {
				got = c.positions(c.x)
				return len(got) == 1 && got[0].Held && got[0].Weight == 1 && (!c.b.Fenced || got[0].Token == h.Token())
			}) {
				c.errorf("a lock with token %d that was made shared is shown as %+v", h.Token(), got)
			}
			c.release(h)
		}),
	newCase("Inspect/StaysTaken", 13).needing(inspect|atLeast|madeByLocker).proves(
		"Inspect shows who keeps a name taken after its release as its holder.",
		func(c *C) {
			c.release(c.holder(locker.AtLeast(longTTL), locker.As("alice")))
			if got := c.shown(c.x, 1)[0]; !got.Held || got.Owner != "alice" || got.Weight != driver.All {
				c.errorf("a name that stays taken is shown with %+v", got)
			}
		}),
	newCase("Inspect/Names", 13).needing(inspect|madeByLocker).proves(
		"Names gives the names that begin with prefix and are held or waited for, each once, whatever the bytes.",
		func(c *C) {
			l, other := c.open(), c.open()
			base := c.name("")
			var want []string
			for _, x := range []string{
				"a", "a/b", "ab", "A", "a%2Fb", "a b", "é", "e\u0301", "\x00", "a\x00b", "\xff",
				"{a}", "*", "[a]", "\\", "🔒", "..", strings.Repeat("z", 300),
			} {
				want = append(want, base+x)
			}
			held := make([]Holding, len(want))
			each(len(want), func(i int) { held[i] = l.acquire(want[i]) })
			p := other.queue(want[0]) // held and waited for is still one name
			for _, x := range []string{"", "a", "a/b", "e", "é"[:1], "\x00", "\xff", "*", "[", "\\", "{", "nobody"} {
				c.showsNames(base+x, want)
			}
			c.showsNames(base[:len(base)-1], want)
			all := c.namesOf("")
			for _, name := range want {
				if !slices.Contains(all, name) {
					c.errorf("%s is not among all names", brief(name))
				}
			}
			for range c.b.api.names(c.ctx, c.viewer(), base) {
				break // whoever has seen enough may leave
			}
			each(len(want), func(i int) { c.release(held[i]) })
			c.release(p.held(soon))
			c.showsNames(base, nil)
		}),
	newCase("Inspect/Errors", 13).needing(inspect|madeByLocker).proves(
		"Inspect and Names return the errors of every other call: for a bad name, a finished ctx and a Locker that is closed.",
		func(c *C) {
			l := c.openLocker()
			c.tells(onlyErr(c.b.api.inspect(c.ended(), l.locker, c.x)), c.x, context.Canceled)
			c.tells(onlyErr(c.b.api.inspect(c.ctx, l.locker, "")), "", locker.ErrInvalidName)
			for _, err := range c.b.api.names(c.ended(), l.locker, c.x) {
				c.tells(err, "", context.Canceled)
			}
			l.close()
			c.tells(onlyErr(c.b.api.inspect(c.ctx, l.locker, c.x)), c.x, locker.ErrClosed)
			for _, err := range c.b.api.names(c.ctx, l.locker, c.x) {
				c.tells(err, "", locker.ErrClosed)
			}
		}),
}

// positions returns what Inspect shows of name.
func (c *C) positions(name string) []locker.Position {
	c.tb.Helper()
	got, err := c.b.api.inspect(c.ctx, c.viewer(), name)
	c.must(err, "Inspect %q", name)
	return got
}

// shown returns what Inspect shows of name once there are n positions.
func (c *C) shown(name string, n int) (got []locker.Position) {
	c.tb.Helper()
	if !c.within(soon, func() bool {
		got = c.positions(name)
		return len(got) == n
	}) {
		c.fatalf("Inspect shows %d positions of %q, want %d: %+v", len(got), name, n, got)
	}
	return got
}

// namesOf returns the names that begin with prefix, in order.
func (c *C) namesOf(prefix string) (all []string) {
	c.tb.Helper()
	for name, err := range c.b.api.names(c.ctx, c.viewer(), prefix) {
		c.must(err, "Names %q", prefix)
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// showsNames fails the case unless the names that begin with prefix are those of all that do.
func (c *C) showsNames(prefix string, all []string) {
	c.tb.Helper()
	want := slices.DeleteFunc(slices.Sorted(slices.Values(all)), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	var got []string
	if !c.within(soon, func() bool {
		got = c.namesOf(prefix)
		return slices.Equal(got, want)
	}) {
		c.errorf("with prefix %q there are %q, want %q", prefix, got, want)
	}
}

// viewer returns a Locker by which the case only looks.
func (c *C) viewer() locker.Locker {
	c.mu.Lock()
	known := c.viewing
	c.mu.Unlock()
	if known == nil {
		known = c.openLocker()
		c.mu.Lock()
		c.viewing = known
		c.mu.Unlock()
	}
	return known.locker
}

// mismatch says what is not as it should be shown, or nothing.
func mismatch(got, want []locker.Position, name string) string {
	ids := make(map[string]bool)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			return fmt.Sprintf("%d positions, want %d: %+v", len(got), len(want), got)
		}
		g, w := got[i], want[i]
		switch {
		case g.Name != name || g.Owner != w.Owner || g.Weight != w.Weight || g.Limit != w.Limit || g.Held != w.Held:
			return fmt.Sprintf("position %d is %+v, want %+v", i, g, w)
		case g.ID == "" || ids[g.ID]:
			return fmt.Sprintf("the ID %q of position %d is none of its own", g.ID, i)
		case !g.Held && g.Token != 0:
			return fmt.Sprintf("position %d waits and has token %d", i, g.Token)
		case !g.Since.IsZero() && time.Since(g.Since).Abs() > time.Hour: // the server's clock may be another
			return fmt.Sprintf("position %d is there since %v", i, g.Since)
		case g.Left < 0 || g.Left > 2*longTTL:
			return fmt.Sprintf("position %d is there for %v more", i, g.Left)
		}
		ids[g.ID] = true
	}
	return ""
}
