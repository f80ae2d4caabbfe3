package memory

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// Store is the server: it knows who holds and who waits. All methods may be
// called from any goroutine.
type Store struct {
	clock driver.Clock
	opts  []locker.Option

	mu       sync.Mutex
	now      driver.Instant    // while it is locked
	queues   map[string]*queue // those that are not empty
	token    int64             // the greatest given, spare ones included
	requests int64
	outage   fault
	crowded  int // the number of names from which on it is time to look for some that are over
	news     []news
}

// news is what an owner of a claim is to be told, once its link lets it through.
type news struct {
	link *Link
	tell func()
}

// tell has the owner of p told, once the store is unlocked.
func (s *Store) tell(p *place, tell func()) { s.news = append(s.news, news{p.link, tell}) }

func (s *Store) lock() {
	s.mu.Lock()
	s.now = s.clock.Now()
}

// unlock unlocks the store and delivers the news.
func (s *Store) unlock() {
	var told []news
	s.news = slices.DeleteFunc(s.news, func(n news) bool {
		if n.link.fault().kind != none {
			return false
		}
		told = append(told, n)
		return true
	})
	s.mu.Unlock()
	for _, n := range told {
		n.tell()
	}
}

// look returns the places in the queue of name, as they are now.
func (s *Store) look(name string) []*place {
	q := s.queues[name]
	if q == nil {
		return nil
	}
	s.settle(q)
	return slices.Clone(q.places)
}

func (s *Store) positions(name string) []driver.Position {
	var all []driver.Position
	for _, p := range s.look(name) {
		c := p.claim
		pos := driver.Position{
			Name: c.Name, ID: c.ID, Owner: c.Owner, Weight: p.weight, Limit: c.Limit,
			Held: p.held, Token: p.grant.Token, Since: time.Now().Add(p.since.Sub(s.now)),
		}
		if p.held {
			pos.Left = p.grant.Until.Sub(s.now)
		}
		all = append(all, pos)
	}
	return all
}

func (s *Store) list(prefix string) []string {
	s.settleAll()
	names := slices.Sorted(maps.Keys(s.queues))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// Destroy takes name from its holders, as an operator does who deletes a lock by
// hand, and reports whether anybody held it. The holders are told as soon as they can be
// reached; the next waiter gets the name.
func (s *Store) Destroy(name string) bool {
	s.lock()
	defer s.unlock()
	holders := slices.DeleteFunc(s.look(name), func(p *place) bool { return !p.held })
	for _, p := range holders {
		s.evict(p)
	}
	return len(holders) > 0
}

// Holders returns those who hold any name, in the order of the names.
func (s *Store) Holders() []driver.Position {
	s.lock()
	defer s.unlock()
	var all []driver.Position
	for _, name := range s.list("") {
		all = append(all, s.positions(name)...)
	}
	return slices.DeleteFunc(all, func(p driver.Position) bool { return !p.Held })
}

// Names returns the names that are held or waited for, in order.
func (s *Store) Names() []string {
	s.lock()
	defer s.unlock()
	return s.list("")
}

// Len returns the number of names that are held or waited for.
func (s *Store) Len() int { return len(s.Names()) }

// Requests returns the number of requests that the store has handled.
func (s *Store) Requests() int64 {
	s.lock()
	defer s.unlock()
	return s.requests
}
