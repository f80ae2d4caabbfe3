package driver_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// A backend has two halves: a server, which keeps the queues, and a driver, which
// sends it requests. Here the server is a value in the same process and a request is a
// call of one of its methods, so that there are no outages and no lost answers.
// conformance_test.go beside it holds this backend to the promises.

// server keeps, for each name, one queue of claims in the order of arrival, holders
// included. It notices by itself that a holder has died, but not that a waiter has: for
// that a real one has sessions, or subscriptions to which nobody listens any more.
type server struct {
	mu     sync.Mutex
	queues map[string][]*entry

	// token is the last one given, spare ones included. There is one counter for all
	// names: it has to outlive every queue, and a counter for each name would be litter
	// that grows with the number of names ever used.
	token int64
}

// entry is one claim as the server knows it.
type entry struct {
	id            string // the claim's: it makes every request safe to repeat
	weight, limit int32
	ttl           time.Duration
	spare         int64         // how many tokens for hand-overs in its process it asked for
	token         int64         // zero while the claim waits
	granted       chan struct{} // closed when it is granted: this wakes the waiter
	until         time.Time     // when the holding ends unless it is renewed
	expiry        *time.Timer   // looks then
}

// join puts c at the end of the queue, unless it is there already, and returns a copy of
// its entry. A claim that neither holds the name then nor waits has left the queue
// again. Both happen in one step: between two requests somebody else could come.
func (s *server) join(c *driver.Claim) entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(c.Name, c.ID)
	switch {
	case e == nil:
		e = &entry{id: c.ID, weight: c.Weight, limit: c.Limit, ttl: c.TTL, spare: int64(c.Spare), granted: make(chan struct{})}
		s.queues[c.Name] = append(s.queues[c.Name], e)
		s.settle(c.Name)
	case e.token != 0:
		e.extend() // the owner hears of its grant only now
	}
	if e.token == 0 && !c.Wait {
		s.remove(c.Name, e)
	}
	return *e
}

// renew restarts the time of c's holding, unless it is a lease, which is only confirmed. It
// returns false when c does not hold its name.
func (s *server) renew(c *driver.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(c.Name, c.ID)
	if e == nil || e.token == 0 {
		return false
	}
	if !c.Lease {
		e.extend()
	}
	return true
}

// leave removes the claim with that ID, and no other, from the queue of name. It returns
// false if there is none.
func (s *server) leave(name, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(name, id)
	if e != nil {
		s.remove(name, e)
	}
	return e != nil
}

// expire removes a holder of which nothing was heard for its TTL.
func (s *server) expire(name string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(e.until) { // it could have been extended just now
		s.remove(name, e)
	}
}

func (s *server) find(name, id string) *entry {
	if i := slices.IndexFunc(s.queues[name], func(e *entry) bool { return e.id == id }); i >= 0 {
		return s.queues[name][i]
	}
	return nil
}

func (s *server) remove(name string, e *entry) {
	if e.token != 0 {
		e.expiry.Stop()
	}
	s.queues[name] = slices.DeleteFunc(s.queues[name], func(o *entry) bool { return o == e })
	s.settle(name)
}

// settle holds the queue to the one rule: a claim is granted when its weight and the
// weights of all ahead of it, holders included, are together no more than its limit. This
// is all there is to exclusive locks, shared ones and permits.
func (s *server) settle(name string) {
	if len(s.queues[name]) == 0 {
		delete(s.queues, name) // no litter
	}
	var ahead int64
	for _, e := range s.queues[name] {
		if e.token == 0 && driver.Fits(ahead, e.weight, e.limit) {
			e.token = s.token + 1
			s.token = e.token + e.spare // those in between nobody else will get
			e.expiry = time.AfterFunc(e.ttl, func() { s.expire(name, e) })
			e.extend()
			close(e.granted) // wakes this waiter and not the herd
		}
		ahead += int64(e.weight)
	}
}

// extend restarts the time of a holding.
func (e *entry) extend() {
	e.until = time.Now().Add(e.ttl)
	e.expiry.Reset(e.ttl)
}

// backend is the driver: what one process knows of the server.
type backend struct {
	server   *server
	clock    driver.Clock
	settings settings
}

// settings are what the backend's own options change.
type settings struct {
	look time.Duration
}

// WithLook sets how often a waiter asks by itself, in case the message of its grant
// was lost.
func WithLook(d time.Duration) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		s.look = d
		if d <= 0 {
			return fmt.Errorf("look %v is not positive", d)
		}
		return nil
	})
}

// New returns a Locker on s. A constructor adds the options up, makes a driver of them and
// hands it to the core, which does the rest.
func New(s *server, opts ...locker.Option) (locker.Locker, error) {
	b := &backend{server: s, settings: settings{look: 10 * time.Second}}
	cfg, err := locker.NewConfig("example", &b.settings, opts...)
	if err != nil {
		return nil, err
	}
	b.clock = cfg.Clock // every Instant is on the core's clock
	return locker.New(b, cfg)
}

// Traits claims what the methods below keep, and nothing else: the core refuses the rest
// with ErrUnsupported.
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "example",
		Fair:    true, // one queue, in the order of arrival
		Fenced:  true, // every grant has a token
		Shared:  true, // the rule is kept for weight 1 and limit All,
		Permits: true, // and for any other weight and limit
		Prompt:  true, // no call outlives its ctx
		// A holder whose entry was removed by hand learns of it at its next renewal.
		Check: 500 * time.Millisecond,
	}
}

// Acquire asks, waits until something may have changed, and asks again, always with the
// same ID. An attempt that finds its own ID in the queue has succeeded, so it does not
// matter whether the answer to an earlier one was lost. One that does not find it
// any more, because somebody removed it, queues anew.
func (b *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	for {
		// The holder counts its time from before the request was sent, the server from
		// when it came: so the holder is the first to call the lock lost. It is also why
		// a waiter that was woken asks once more. When the server granted
		// the name the waiter does not know; when it sent this request it does.
		sent := b.clock.Now()
		e := b.server.join(c)
		switch {
		case e.token != 0:
			return driver.Grant{Token: e.token, Spare: e.spare, Until: sent.Add(c.TTL)}, nil
		case !c.Wait:
			return driver.Grant{}, driver.ErrTaken // nothing was left behind
		}
		select {
		case <-e.granted:
		case <-time.After(b.settings.look):
		case <-ctx.Done():
			// The claim is still in the queue, or may hold the name by now. After any error
			// but ErrTaken the core calls Abandon until that says nil: there is no
			// cleaning up here.
			return driver.Grant{}, ctx.Err()
		}
	}
}

// Renew never brings a holding back: it changes what is there and makes nothing. A real
// driver sends one request for all claims, and for a claim of which it hears nothing
// it reports the error, so that the core asks again soon.
func (b *backend) Renew(_ context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	for _, c := range claims {
		sent := b.clock.Now()
		if b.server.renew(c) {
			report(c, sent.Add(c.TTL), nil)
		} else {
			report(c, 0, driver.ErrGone)
		}
	}
}

// Release frees the name by the claim's ID, so that it never frees it for a successor.
func (b *backend) Release(_ context.Context, c *driver.Claim) error {
	if !b.server.leave(c.Name, c.ID) {
		return driver.ErrGone
	}
	return nil
}

// Abandon is called for claims of which nobody knows how far they came, so finding
// nothing is fine. What it promises besides, that a request of c still on its way will
// do nothing when it arrives, needs no effort here: a method call is over when it has
// returned. Over a network it does, such as a tombstone that the late request finds.
func (b *backend) Abandon(_ context.Context, c *driver.Claim) error {
	b.server.leave(c.Name, c.ID)
	return nil
}

// Close frees what New opened: nothing.
func (b *backend) Close(context.Context) error { return nil }

// How to write a backend: the six methods of a driver, by the one rule.
func Example() {
	ctx := context.Background()
	s := &server{queues: make(map[string][]*entry)}
	l, err := New(s)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)
	other, err := New(s, locker.WithTTL(5*time.Second), WithLook(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close(ctx)

	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock)
	_, err = other.TryAcquire(ctx, "orders/42", locker.Shared())
	fmt.Println("taken:", errors.Is(err, locker.ErrNotAcquired))
	fmt.Println("released:", lock.Release(ctx))

	lock, err = other.TryAcquire(ctx, "orders/42", locker.Permits(2, 3))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	fmt.Println(lock)
	_, err = l.TryAcquire(ctx, "orders/42", locker.Permits(2, 3))
	fmt.Println("taken:", errors.Is(err, locker.ErrNotAcquired))

	// Output:
	// lock "orders/42" with token 1
	// taken: true
	// released: <nil>
	// lock "orders/42" with token 2
	// taken: true
}
