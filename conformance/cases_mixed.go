package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

var mixedCases = []*testCase{
	newCase("Mixed/InOrder", 9).needing(fair|shareable|permits|inspect|madeByLocker).proves(
		"All kinds stand in one queue, in the order of arrival: each is granted when it fits beside all that are ahead of it, and nobody is overtaken.",
		func(c *C) {
			for range 3 {
				c.scheduled()
			}
		}),
	newCase("Mixed/BehindPermits", 9).needing(fair|shareable|permits|inspect|madeByLocker).proves(
		"A claim whose limit has room for it is granted although permits ahead of it are waited for, and does not keep their waiter waiting.",
		func(c *C) {
			two := locker.Permits(2, 3)
			first := c.open().acquire(c.x, two)
			second := c.arrive(c.open(), c.x, 1, soon, two)
			reader := c.open().takes(c.x, locker.Shared())
			late := c.arrive(c.open(), c.x, 3, soon, locker.Shared()).held(soon)
			writer := c.arrive(c.open(), c.x, 4, soon)
			second.waits("beside 2 of 3 permits that are held")
			c.release(first)
			c.release(second.held(soon)) // those who came later do not count
			writer.waits("among readers")
			c.release(reader, late)
			c.release(writer.held(soon))
		}),
	newCase("Mixed/Exclusion", 1).needing(shareable|permits).proves(
		"Holders of one name never overlap beyond what their kinds allow, whatever kinds want it.",
		func(c *C) {
			const n = 3
			c.contest(800*time.Millisecond, c.openMany(6), 1, func(cl *client, who int, rec *record) {
				switch k := 1 + rand.IntN(n); rand.IntN(3) {
				case 0:
					c.hold(cl, who, rec, 1, 0, locker.Shared())
				case 1:
					c.hold(cl, who, rec, k, n, locker.Permits(k, n))
				default:
					c.hold(cl, who, rec, 0, 0)
				}
			})
		}),
}

// actor is one claim of a schedule, as the rule sees it and as it really is.
type actor struct {
	weight, limit int32
	held          bool // by the rule
	client        *client
	p             *pending
}

func (a *actor) String() string {
	switch {
	case a.limit != driver.All:
		return fmt.Sprintf("%d of %d permits", a.weight, a.limit)
	case a.weight == 1:
		return "shared"
	}
	return "exclusive"
}

// options returns those of the acquisition.
func (a *actor) options() options {
	switch {
	case a.limit != driver.All:
		return options{locker.Permits(int(a.weight), int(a.limit))}
	case a.weight == 1:
		return options{locker.Shared()}
	}
	return nil
}

// grant holds a queue to the one rule and returns those that it newly grants.
func grant(queue []*actor) (granted []*actor) {
	var ahead int64
	for _, a := range queue {
		if !a.held && driver.Fits(ahead, a.weight, a.limit) {
			a.held = true
			granted = append(granted, a)
		}
		ahead += int64(a.weight)
	}
	return granted
}

// scheduled has claims of all kinds come and go one after the other and compares who is granted with the rule. Each
// Locker has one claim, because those of one process wait there.
func (c *C) scheduled() {
	name := c.name("x")
	idle := c.openMany(6)
	var queue []*actor
	var story []string
	fails := func(format string, args ...any) {
		for _, a := range queue {
			if a.p.finished() && a.p.err == nil {
				c.alive(a.p.lock, "in a schedule") // else that is what is wrong
			}
		}
		c.fatalf("%s\n  "+format, append([]any{strings.Join(story, "\n")}, args...)...)
	}
	for step := range 26 {
		held := slices.DeleteFunc(slices.Clone(queue), func(a *actor) bool { return !a.held })
		if len(idle) > 0 && (len(held) == 0 || rand.IntN(5) < 3) && step < 20 {
			a := &actor{weight: driver.All, limit: driver.All, client: idle[0]}
			switch rand.IntN(3) {
			case 0:
				a.weight = 1
			case 1:
				a.weight, a.limit = 1+rand.Int32N(3), 3
			}
			idle = idle[1:]
			a.p = c.arrive(a.client, name, len(queue), soon, a.options()...)
			queue = append(queue, a)
			story = append(story, fmt.Sprintf("%v arrives", a))
		} else if len(held) > 0 {
			a := held[rand.IntN(len(held))]
			queue = slices.DeleteFunc(queue, func(b *actor) bool { return a == b })
			story = append(story, fmt.Sprintf("%v is released", a))
			c.release(a.p.held(soon))
			idle = append(idle, a.client)
		} else {
			break
		}
		for _, a := range grant(queue) {
			story = append(story, fmt.Sprintf("  %v is to be granted", a))
			if !c.closes(a.p.done, soon) {
				fails("and is not")
			}
		}
		time.Sleep(2 * time.Millisecond)
		for _, a := range queue {
			if !a.held && a.p.finished() {
				fails("%v is granted before its turn: %v", a, a.p.err)
			}
		}
	}
	for len(queue) > 0 {
		first := queue[0]
		c.release(first.p.held(soon))
		queue = queue[1:]
	}
}
