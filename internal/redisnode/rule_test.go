package redisnode

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// place is a claim and what the rule says of it.
type place struct {
	*Claim
	weight int32
	held   bool

	mu   sync.Mutex
	told bool
	look bool // it was told to look, as one is whose connection breaks
}

func (p *place) String() string {
	return fmt.Sprintf("%s:%d/%d", p.ID[28:], p.weight, p.Limit)
}

// line is all claims of a name in the order of arrival, and what has been done to them.
type line struct {
	*testing.T
	node   *Node
	name   string
	places []*place
	story  []string
}

// In no order of events does the server grant a name otherwise than by the rule: in a queue of all kinds, with permits of several limits.
func TestRule(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	made := 0
	rapid.Check(t, func(r *rapid.T) {
		made++
		l := &line{T: t, node: n, name: fmt.Sprint("rule ", made)}
		defer l.leave()
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			l.step(r)
		}
	})
}

// The rule is kept where the last holder leaves a mixed queue: a claim of a greater limit is granted before one that waits.
func TestMixedQueueOutlivesItsHolders(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	var held string
	var claims []*Claim
	for _, permits := range [][2]int32{{3, 3}, {2, 3}, {2, 3}, {1, 5}} {
		c := n.exclusive(t.Name())
		c.Weight, c.Limit, c.TTL = permits[0], permits[1], 10*time.Minute
		n.waits(t, c)
		claims = append(claims, c)
	}
	must(t, n.Release(within(t, time.Minute), claims[0].Claim))
	all, err := n.Look(within(t, time.Minute), t.Name())
	must(t, err)
	for _, p := range all {
		if p.Held {
			held += fmt.Sprintf("%d/%d ", p.Weight, p.Limit)
		}
	}
	if held != "2/3 1/5 " {
		t.Errorf("held by %s", held)
	}
}

// step does something to the name, and compares what is there then with the rule.
func (l *line) step(r *rapid.T) {
	ctx := within(l.T, time.Minute)
	var asks *place // and so is told by the answer
	var err error
	one := func(which string) *place {
		var all []*place
		for _, p := range l.places {
			if p.held == (which == "holder") {
				all = append(all, p)
			}
		}
		if len(all) == 0 {
			return nil
		}
		return rapid.SampledFrom(all).Draw(r, which)
	}
	say := func(what string, p *place) { l.story = append(l.story, fmt.Sprint(what, " ", p)) }
	remove := func(p *place) {
		l.places = slices.DeleteFunc(l.places, func(o *place) bool { return o == p })
	}
	switch what := rapid.SampledFrom([]string{"queue", "queue", "queue", "try", "release", "release", "give up", "lighten", "expire"}).Draw(r, "step"); what {
	case "queue", "try":
		p := &place{Claim: l.node.exclusive(l.name)}
		p.TTL = 10 * time.Minute // nobody renews it
		switch rapid.IntRange(0, 3).Draw(r, "kind") {
		case 0:
			p.Weight = 1
		case 1, 2:
			p.Limit = rapid.SampledFrom([]int32{3, 3, 3, 5}).Draw(r, "limit")
			p.Weight = rapid.Int32Range(1, p.Limit).Draw(r, "weight")
		}
		p.weight = p.Weight
		asks = p
		say(what, p)
		l.node.Join(p.Claim, func(a Answer) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.told, p.look = p.told || a.Granted, p.look || !a.Granted
		})
		how := Queue
		if what == "try" {
			how = Try
		}
		var ahead int64
		for _, o := range l.places {
			ahead += int64(o.weight)
		}
		var a Answer
		a, err = l.node.Acquire(ctx, p.Claim, how)
		if a.Granted != driver.Fits(ahead, p.weight, p.Limit) {
			l.fails(r, "granted: %v", a.Granted)
		}
		if a.Granted || what == "queue" {
			l.places = append(l.places, p)
		}
	case "release", "lighten", "expire":
		p := one("holder")
		if p == nil {
			return
		}
		say(what, p)
		switch what {
		case "release":
			remove(p)
			err = l.node.Release(ctx, p.Claim.Claim)
		case "lighten":
			p.weight = 1
			err = l.node.Lighten(ctx, p.Claim.Claim, 1)
		case "expire":
			remove(p)
			l.expire(p)
			if w := one("waiter"); w != nil {
				asks = w
				_, err = l.node.Acquire(ctx, w.Claim, Queue) // as it does when the time of the first holder is over
			}
		}
	case "give up":
		p := one("waiter")
		if p == nil {
			return
		}
		say(what, p)
		remove(p)
		err = l.node.Abandon(ctx, p.Claim.Claim)
	}
	if err != nil {
		l.fails(r, "%v", err)
	}
	l.compare(r, asks)
}

// compare compares the server's view of the name with the rule, and waits until all are told who are granted it, but for the one
// who asks.
func (l *line) compare(r *rapid.T, asks *place) {
	ahead := int64(0)
	var want []string
	for _, p := range l.places {
		granted := !p.held && driver.Fits(ahead, p.weight, p.Limit)
		if p.held = p.held || granted; granted && p != asks {
			eventually.Is(l.T, fmt.Sprintf("%s: %v is told", strings.Join(l.story, ", "), p), func() bool { return l.isTold(p) })
		}
		want = append(want, fmt.Sprint(p, p.held))
		ahead += int64(p.weight)
	}
	seen, err := l.node.Look(within(l.T, time.Minute), l.name)
	if err != nil {
		l.fails(r, "%v", err)
	}
	var got []string
	for _, s := range seen {
		got = append(got, fmt.Sprintf("%s:%d/%d %v", s.ID[28:], s.Weight, s.Limit, s.Held))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		l.fails(r, "there are %v, want %v", got, want)
	}
}

// isTold reports whether p was told that it holds the name: by news, or by the answer to a look for which it was asked.
func (l *line) isTold(p *place) bool {
	p.mu.Lock()
	told, look := p.told, p.look
	p.mu.Unlock()
	if told || !look {
		return told
	}
	a, err := l.node.Acquire(within(l.T, time.Minute), p.Claim, Queue)
	return err == nil && a.Granted
}

func (l *line) fails(r *rapid.T, format string, args ...any) {
	l.Helper()
	r.Fatalf("%s: "+format, append([]any{strings.Join(l.story, ", ")}, args...)...)
}

// expire has the time of a holder be over.
func (l *line) expire(p *place) {
	ctx := within(l.T, time.Minute)
	past := func(record string) string {
		words := strings.SplitN(record, " ", 4)
		words[2] = "1"
		return strings.Join(words, " ")
	}
	if p.weight == driver.All {
		l.node.client.Set(ctx, p.lock, past(l.node.client.Get(ctx, p.lock).Val()), time.Minute)
		return
	}
	l.node.client.HSet(ctx, p.lock, p.ID, past(l.node.client.HGet(ctx, p.lock, p.ID).Val()))
}

// leave ends all claims, which leaves nothing in the queue.
func (l *line) leave() {
	ctx := within(l.T, time.Minute)
	for _, p := range l.places {
		l.node.Leave(p.Claim)
		if err := l.node.Abandon(ctx, p.Claim.Claim); err != nil {
			l.Error(err)
		}
	}
	if left := l.node.client.LRange(ctx, l.node.exclusive(l.name).queue, 0, -1).Val(); len(left) > 0 {
		l.Errorf("%s: left in the queue: %q", strings.Join(l.story, ", "), left)
	}
}
