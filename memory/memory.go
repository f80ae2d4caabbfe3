// Package memory is a locker whose server is a value in the same process. It
// keeps every promise of package locker, so that it serves three purposes: locks
// within one program, the lock in the unit tests of code that in production uses
// Redis or another server, and the reference that the other backends are
// compared with.
//
//	l, err := memory.New()
//
// A test that needs several processes on one server makes a [Store] and as many
// Lockers of it as it likes. The store can be made to misbehave the way servers
// and networks do:
//
//	store := memory.NewStore(locker.WithTTL(time.Second))
//	a, _ := store.Locker()
//	b, link, _ := store.Remote()
//	link.Freeze()              // b is cut off: it loses its locks, a gets them
//	store.Destroy("orders/42") // an operator deletes the lock under its holder
//	store.Fail(err)            // the server is away until store.Heal()
//
// Time is that of package time unless [locker.WithClock] says otherwise, so that
// inside a testing/synctest bubble leases of hours end in no time at all.
package memory

import (
	"reflect"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// New returns a Locker with a store of its own.
func New(opts ...locker.Option) (locker.Locker, error) {
	return NewStore(opts...).Locker()
}

// NewStore returns a store without locks. The options are those of every Locker
// made of it; an option that cannot be honoured is reported by Locker and Remote.
// The clock among them is also the one by which the store ends leases.
func NewStore(opts ...locker.Option) *Store {
	s := &Store{
		opts:  append([]locker.Option{locker.WithClock(locker.TimeClock{})}, opts...),
		names: make(map[string]*entry),
		clock: locker.TimeClock{},
	}
	if cfg, err := locker.NewConfig[struct{}]("memory", nil, s.opts...); err == nil {
		s.clock = cfg.Clock
	}
	s.up = &Link{store: s}
	return s
}

// Locker returns a further Locker on the store, as independent of the others as
// if it were in another process.
func (s *Store) Locker(opts ...locker.Option) (locker.Locker, error) {
	return s.locker(s.up, opts)
}

// Remote is like Locker, and also returns the link over which the Locker speaks
// to the store.
func (s *Store) Remote(opts ...locker.Option) (locker.Locker, *Link, error) {
	link := &Link{store: s}
	l, err := s.locker(link, opts)
	if err != nil {
		return nil, nil, err
	}
	return l, link, nil
}

func (s *Store) locker(link *Link, opts []locker.Option) (locker.Locker, error) {
	all := make([]locker.Option, 0, len(s.opts)+len(opts))
	cfg, err := locker.NewConfig[struct{}]("memory", nil, append(append(all, s.opts...), opts...)...)
	if err != nil {
		return nil, err
	}
	return locker.New(newDriver(s, link, cfg.Clock), cfg)
}

// Driver returns what stands below a Locker of the store, for tests that put
// something of their own between the two.
func (s *Store) Driver(clock driver.Clock) driver.Driver {
	return newDriver(s, s.up, clock)
}

func newDriver(s *Store, link *Link, clock driver.Clock) *client {
	same := clock != nil && reflect.TypeOf(clock).Comparable() && clock == s.clock
	return &client{store: s, link: link, clock: clock, same: same}
}
