package memory

import (
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// queue is the claims of one name in the order of arrival, holders included.
type queue struct {
	name   string
	places []*place
	timer  *time.Timer // for the end of a holding that others wait for
}

// place is where one claim stands.
type place struct {
	claim  *driver.Claim
	link   *Link
	grant  driver.Grant      // Until is on the store's clock
	since  driver.Instant    // of the grant or, before it, of the arrival
	ready  chan driver.Grant // receives the grant of a claim that waits; closed when it is evicted
	weight int32             // less than the claim's once the holder has lightened it
	held   bool
	freed  bool // by its holder, at once or for later
	wanted bool // the holder has been told that others wait
}

func (p *place) holds(now driver.Instant) bool {
	return p != nil && p.held && now < p.grant.Until
}

// enter puts a claim at the end of its name's queue. One that neither holds the name then
// nor waits has left the queue again.
func (s *Store) enter(c *driver.Claim, link *Link) *place {
	q := s.queues[c.Name]
	if q == nil {
		if len(s.queues) > s.crowded { // forget the names whose holdings are over
			s.settleAll()
			s.crowded = 2*len(s.queues) + 1000
		}
		q = &queue{name: c.Name}
		s.queues[c.Name] = q
	}
	p := &place{claim: c, link: link, weight: c.Weight, since: s.now}
	q.places = append(q.places, p)
	s.settle(q)
	switch {
	case p.held:
	case c.Wait:
		p.ready = make(chan driver.Grant, 1)
	default:
		s.remove(p)
	}
	return p
}

// remove takes p out of its queue, if it is still there.
func (s *Store) remove(p *place) {
	p.held = false
	if q := s.queues[p.claim.Name]; q != nil {
		q.places = slices.DeleteFunc(q.places, func(o *place) bool { return o == p })
		s.settle(q)
	}
}

// evict removes p against its owner's will and tells the owner.
func (s *Store) evict(p *place) {
	switch {
	case !p.held:
		close(p.ready)
	case p.claim.Lost != nil:
		s.tell(p, func() { p.claim.Lost(driver.ErrGone) })
	}
	s.remove(p)
}

// settle holds q to the one rule after a change: it ends the holdings whose time is over
// and then grants, from the head, each claim that fits behind all that are ahead of it.
//
// There is one exception to the order. A waiter whose link is out of reach keeps
// its place, but does not count, so that it keeps nobody waiting; whoever is granted
// from behind it comes to stand ahead of it, so that it counts them when it is back.
func (s *Store) settle(q *queue) {
	q.places = slices.DeleteFunc(q.places, func(p *place) bool { return p.held && !p.holds(s.now) })

	var ahead int64
	var next *place // the holder whose time is over first
	var waits bool
	away := -1 // where the first waiter out of reach stands
	for i, p := range q.places {
		switch {
		case p.held:
		case !p.link.reachable():
			if away < 0 {
				away = i
			}
			continue
		case driver.Fits(ahead, p.weight, p.claim.Limit):
			s.grant(p)
			if away >= 0 {
				copy(q.places[away+1:i+1], q.places[away:i])
				q.places[away] = p
				away++
			}
		default:
			waits = waits || p.claim.Wait
		}
		ahead += int64(p.weight)
		if p.held && (next == nil || p.grant.Until < next.grant.Until) {
			next = p
		}
	}

	if waits {
		s.want(q)
	}
	switch {
	case waits && next != nil:
		s.arm(q, next.grant.Until.Sub(s.now))
	case q.timer != nil:
		q.timer.Stop()
	}
	if len(q.places) == 0 {
		delete(s.queues, q.name)
	}
}

func (s *Store) grant(p *place) {
	spare := int64(p.claim.Spare)
	p.grant = driver.Grant{Token: s.token + 1, Spare: spare, Until: s.now.Add(p.claim.TTL)}
	s.token += 1 + spare
	p.held, p.since = true, s.now
	if p.ready != nil {
		p.ready <- p.grant
	}
}

// want tells the holders, each once, that somebody waits.
func (s *Store) want(q *queue) {
	for _, p := range q.places {
		if p.held && !p.wanted && p.claim.Wanted != nil {
			p.wanted = true
			s.tell(p, p.claim.Wanted)
		}
	}
}

// arm sees to it that q is settled after d. While nobody waits there is no timer:
// then a holding whose time is over ends when somebody looks.
func (s *Store) arm(q *queue, d time.Duration) {
	if q.timer != nil {
		q.timer.Reset(d)
		return
	}
	name := q.name
	q.timer = time.AfterFunc(d, func() {
		s.lock()
		defer s.unlock()
		if q := s.queues[name]; q != nil {
			s.settle(q)
		}
	})
}

func (s *Store) settleAll() {
	for _, q := range s.queues {
		s.settle(q)
	}
}
