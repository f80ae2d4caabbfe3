package redlock

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// heirs counts to whom the nodes have handed the lock that a claim gave up, and
// tells them.
type heirs struct {
	b     *backend
	c     *claim
	token int64 // that the successor gets; 0 without fencing

	mu    sync.Mutex
	open  int // nodes that have not answered
	list  []heir
	told  bool
	won   bool // one of them has a majority
	timer *time.Timer
}

// stragglers is how long the nodes that have not answered are waited for. Too
// short only means that a waiter asks again which has the lock.
const stragglers = 25 * time.Millisecond

type heir struct {
	value  string
	nodes  int
	fenced int // of them, those that have written the token
}

func (b *backend) newHeirs(c *claim, nodes int) *heirs {
	h := &heirs{b: b, c: c, open: nodes}
	if b.fenced {
		c.mu.Lock()
		h.token = max(c.token+1, b.tokens.guess())
		c.mu.Unlock()
	}
	return h
}

// add counts the answer of node i. With a majority for one of them that one has
// the lock; otherwise, when all have answered or the others take too long,
// everybody who was given something is told to look.
func (h *heirs) add(i int, rep reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
	switch {
	case h.told:
		if rep.handed && !h.won {
			h.tell(rep.holder, false)
		}
		return
	case rep.handed:
		h.b.habits.contended(h.c.Name)
		h.count(rep.holder, rep.fenced)
	case rep.err == nil && !rep.yes && rep.sent && plausible(rep.holder):
		// Perhaps handed over by an earlier request, whose answer was lost.
		h.tell(rep.holder, false)
	}
	for _, heir := range h.list {
		if heir.nodes >= h.b.quorum && (heir.fenced >= h.b.quorum || h.token == 0) {
			h.tell(heir.value, true)
			h.won = true
			h.finish()
			return
		}
	}
	switch {
	case h.open == 0:
		h.look()
	case len(h.list) > 0 && h.timer == nil:
		h.timer = time.AfterFunc(stragglers, h.expire)
	}
}

func (h *heirs) count(value string, fenced bool) {
	for k := range h.list {
		if heir := &h.list[k]; heir.value == value {
			heir.nodes++
			if fenced {
				heir.fenced++
			}
			return
		}
	}
	one := heir{value: value, nodes: 1}
	if fenced {
		one.fenced = 1
	}
	h.list = append(h.list, one)
}

func (h *heirs) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.told {
		h.look()
	}
}

func (h *heirs) look() {
	for _, heir := range h.list {
		h.tell(heir.value, false)
	}
	h.finish()
}

func (h *heirs) finish() {
	h.told = true
	if h.timer != nil {
		h.timer.Stop()
	}
}

// tell wakes the process that waits under value: it has the lock, or it should
// look.
func (h *heirs) tell(value string, has bool) {
	b := h.b
	r := &ringing{b: b, args: []any{"publish", b.prefix + ":wake:" + channelOf(value), ring{value: value, name: h.c.Name, token: h.token, has: has}.String()}}
	r.first = b.ringer()
	r.next()
}

// ringer is the node that is best to send a message through: one to which
// something has to be sent anyway, or else one that has nothing to do.
func (b *backend) ringer() int {
	best, first := 0, 0
	for i, n := range b.nodes {
		if worth := n.idle(); worth > best {
			best, first = worth, i
		}
	}
	return first
}

// ringing publishes a message on one node after the other until somebody hears it.
type ringing struct {
	b     *backend
	args  []any
	first int
	tried int
}

func (r *ringing) next() {
	if n := len(r.b.nodes); r.tried < n {
		i := (r.first + r.tried) % n
		r.tried++
		r.b.nodes[i].submit(&request{job: r, i: i})
	}
}

func (r *ringing) command(int) (*script, []any) { return nil, r.args }

func (r *ringing) answered(_ int, v any, err error, _ bool) {
	if heard, _ := v.(int64); err != nil || heard == 0 {
		r.next()
	}
}

// ring is a message to a waiter: it has the lock, with token, or else it should
// look.
type ring struct {
	value, name string
	has         bool
	token       int64
}

// String is "TOKEN LENGTH VALUE NAME" with the length of the value, and "?" for
// the token if there is no lock.
func (r ring) String() string {
	token := "?"
	if r.has {
		token = strconv.FormatInt(r.token, 10)
	}
	return token + " " + strconv.Itoa(len(r.value)) + " " + r.value + " " + r.name
}

func parseRing(text string) (r ring, ok bool) {
	token, rest, _ := strings.Cut(text, " ")
	length, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n+1 > len(rest) || !plausible(rest[:n]) {
		return r, false
	}
	r.value, r.name = rest[:n], rest[n+1:]
	if token == "?" {
		return r, true
	}
	r.has = true
	r.token, err = strconv.ParseInt(token, 10, 64)
	return r, err == nil
}
