package memory

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// Store is the server: it knows who holds and who waits. All methods may be
// called from any goroutine.
type Store struct {
	clock driver.Clock
	up    *Link // of all Lockers made by Locker

	opts []locker.Option

	mu       sync.Mutex
	names    map[string]*entry
	token    int64
	requests int64
	outage   fault
	crowded  int // so many names that it is time to look for leases that are over
}

// entry is one name that is held or waited for. Leases end when somebody looks:
// a timer runs only while somebody waits, so that a lock nobody else wants costs
// no timer.
type entry struct {
	name    string
	holders []*place
	queue   []*place
	timer   *time.Timer
}

// place is where one claim stands.
type place struct {
	entry *entry
	claim *driver.Claim
	link  *Link
	held  bool
	until driver.Instant
	token int64
	ready chan struct{} // closed when granted; nil for a claim that did not wait
}

var errUnavailable = errors.New("memory: the store is away")

// enter puts a claim at the end of its name's queue and, if it can, grants it.
func (s *Store) enter(c *driver.Claim, link *Link) *place {
	e := s.names[c.Name]
	if e == nil {
		if len(s.names) > s.crowded {
			s.settleAll()
			s.crowded = 2*len(s.names) + 1000
		}
		e = &entry{name: c.Name}
		s.names[c.Name] = e
	}
	p := &place{entry: e, claim: c, link: link}
	if len(e.holders) == 0 && len(e.queue) == 0 && link.reachable() {
		s.grant(p, s.clock.Now())
		return p
	}
	if c.Wait {
		p.ready = make(chan struct{})
	}
	e.queue = append(e.queue, p)
	s.settle(e)
	return p
}

func (s *Store) grant(p *place, now driver.Instant) {
	s.token++
	p.token = s.token
	p.held = true
	p.until = now.Add(p.claim.TTL)
	p.entry.holders = append(p.entry.holders, p)
	if p.ready != nil {
		close(p.ready)
	}
}

// remove takes a claim away, wherever it stands, and says whether it held.
func (s *Store) remove(p *place) (held bool) {
	e := p.entry
	if p.held {
		held = s.clock.Now() < p.until
		s.unhold(p)
	} else {
		e.queue = slices.DeleteFunc(e.queue, func(q *place) bool { return q == p })
	}
	s.settle(e)
	return held
}

// giveUp takes away a claim whose caller stopped waiting, unless the link is down
// and the store cannot hear of it.
func (s *Store) giveUp(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outage.kind == none && p.link.fault.kind == none {
		s.remove(p)
	}
}

func (s *Store) unhold(p *place) {
	p.held = false
	e := p.entry
	e.holders = slices.DeleteFunc(e.holders, func(h *place) bool { return h == p })
}

// settle ends the leases that are over, grants what can be granted, and forgets
// the name if nobody wants it.
func (s *Store) settle(e *entry) {
	if len(e.holders) == 0 && len(e.queue) == 0 {
		s.forget(e)
		return
	}
	now := s.clock.Now()
	for i := len(e.holders) - 1; i >= 0; i-- {
		if p := e.holders[i]; now >= p.until {
			s.unhold(p)
		}
	}
	s.advance(e, now)
	if len(e.holders) == 0 && len(e.queue) == 0 {
		s.forget(e)
		return
	}
	s.arm(e, now)
}

func (s *Store) forget(e *entry) {
	if s.names[e.name] == e {
		delete(s.names, e.name)
	}
	if e.timer != nil {
		e.timer.Stop()
	}
}

// advance grants in the order of arrival. A claim whose process is out of reach
// keeps its place, but does not keep others waiting.
func (s *Store) advance(e *entry, now driver.Instant) {
	rest := e.queue[:0]
	blocked := false
	for _, p := range e.queue {
		if blocked = blocked || p.link.reachable() && !e.admits(p); blocked || !p.link.reachable() {
			rest = append(rest, p)
			continue
		}
		s.grant(p, now)
	}
	clear(e.queue[len(rest):])
	e.queue = rest
}

func (e *entry) admits(p *place) bool {
	for _, h := range e.holders {
		if !driver.Fits(int64(h.claim.Weight), p.claim.Weight, p.claim.Limit) {
			return false
		}
	}
	return true
}

// arm sees to it that somebody looks when the next lease is over.
func (s *Store) arm(e *entry, now driver.Instant) {
	if len(e.queue) == 0 || len(e.holders) == 0 {
		return
	}
	next := e.holders[0].until
	for _, h := range e.holders[1:] {
		next = min(next, h.until)
	}
	if e.timer == nil {
		e.timer = time.AfterFunc(next.Sub(now), func() { s.ring(e) })
		return
	}
	e.timer.Reset(next.Sub(now))
}

func (s *Store) ring(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names[e.name] == e {
		s.settle(e)
	}
}

func (s *Store) settleAll() {
	for _, e := range slices.Collect(maps.Values(s.names)) {
		s.settle(e)
	}
}

// Destroy takes name from its holders, as an operator does who deletes a lock by
// hand, and reports whether anybody held it. Holders that can be reached are
// told; the next waiter gets the name.
func (s *Store) Destroy(name string) bool {
	s.mu.Lock()
	var told []*driver.Claim
	e := s.names[name]
	destroyed := false
	if e != nil {
		s.settle(e)
		for _, p := range slices.Clone(e.holders) {
			destroyed = true
			s.unhold(p)
			if p.link.reachable() {
				told = append(told, p.claim)
			}
		}
		s.settle(e)
	}
	s.mu.Unlock()
	for _, c := range told {
		if c.Lost != nil {
			c.Lost(driver.ErrGone)
		}
	}
	return destroyed
}

// Holder is one holding as the store sees it.
type Holder struct {
	Name   string
	Owner  string
	Token  int64
	Shared bool
	Left   time.Duration // of its lease
}

// Holders lists who holds, in no order.
func (s *Store) Holders() []Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleAll()
	now := s.clock.Now()
	var held []Holder
	for name, e := range s.names {
		for _, p := range e.holders {
			held = append(held, Holder{
				Name:   name,
				Owner:  p.claim.Owner,
				Token:  p.token,
				Shared: p.claim.Weight != driver.All,
				Left:   p.until.Sub(now),
			})
		}
	}
	return held
}

// Waiting is how many claims wait for name. A Locker has at most one at a time,
// however many of its goroutines want the name.
func (s *Store) Waiting(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.names[name]; e != nil {
		return len(e.queue)
	}
	return 0
}

// Names lists the names that are held or waited for, in no order.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleAll()
	return slices.Collect(maps.Keys(s.names))
}

// Len is the number of names that are held or waited for.
func (s *Store) Len() int { return len(s.Names()) }

// Requests is the number of requests that the store has handled.
func (s *Store) Requests() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}
