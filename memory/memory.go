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
// Its Lockers can do all that package locker has: every kind of claim, in the strict order of
// arrival, inspection, eviction, downgrade, AtLeast and hand-over. What is held ends with
// the process. A held name takes about 150 bytes, and no timer while nobody waits for it.
//
// Time is that of package time unless [locker.WithClock] says otherwise, so that
// inside a testing/synctest bubble leases of hours end in no time at all.
package memory

import (
	"slices"

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
		opts:   append([]locker.Option{locker.WithClock(locker.TimeClock{})}, opts...),
		queues: make(map[string]*queue),
		clock:  locker.TimeClock{},
	}
	if cfg, err := locker.NewConfig[struct{}]("memory", nil, s.opts...); err == nil {
		s.clock = cfg.Clock
	}
	return s
}

// Locker returns a further Locker on the store, as independent of the others as
// if it were in another process.
func (s *Store) Locker(opts ...locker.Option) (locker.Locker, error) {
	l, _, err := s.Remote(opts...)
	return l, err
}

// Remote is like Locker, and also returns the link over which the Locker speaks
// to the store.
func (s *Store) Remote(opts ...locker.Option) (locker.Locker, *Link, error) {
	cfg, err := locker.NewConfig[struct{}]("memory", nil, append(slices.Clip(s.opts), opts...)...)
	if err != nil {
		return nil, nil, err
	}
	link := &Link{store: s}
	l, err := locker.New(&client{s, link, cfg.Clock}, cfg)
	return l, link, err
}

// Driver returns what stands below a Locker of the store, for tests that put
// something of their own between the two.
func (s *Store) Driver(clock driver.Clock) driver.Driver {
	return &client{s, &Link{store: s}, clock}
}
