package locker_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/memory"
)

// wrapped is a Locker around another.
type wrapped struct{ locker.Locker }

func (w wrapped) Unwrap() locker.Locker { return w.Locker }

// Inspect and Names show who holds and who waits, also through a Locker that wraps another, and
// Evict removes just that one.
func TestInspectAndEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := memory.NewStore()
		l, other := wrapped{openStore(t, s)}, openStore(t, s)
		lock, err := l.Acquire(ctx, "x", locker.As("the first"))
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *locker.Lock, 1)
		go func() {
			lock, err := other.Acquire(ctx, "x", locker.As("the second"))
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		synctest.Wait()
		positions, err := locker.Inspect(ctx, l, "x")
		if err != nil || len(positions) != 2 || !positions[0].Held || positions[0].Owner != "the first" || positions[0].Token != lock.Token() ||
			positions[1].Held || positions[1].Owner != "the second" || positions[1].Name != "x" {
			t.Fatalf("%+v, %v", positions, err)
		}
		var names []string
		for name, err := range locker.Names(ctx, l, "") {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		if !slices.Equal(names, []string{"x"}) {
			t.Errorf("%q", names)
		}
		if err := locker.Evict(ctx, l, positions[0]); err != nil {
			t.Fatal(err)
		}
		<-lock.Context().Done()
		if cause := context.Cause(lock.Context()); !errors.Is(cause, locker.ErrLost) {
			t.Error(cause)
		}
		second := <-got
		if err := locker.Evict(ctx, l, positions[0]); !errors.Is(err, locker.ErrNotFound) || second.Context().Err() != nil {
			t.Errorf("evicted twice: %v, the successor: %v", err, second.Context().Err())
		}
		for _, err := range locker.Names(ctx, wrapped{l}, "nobody has this") {
			t.Errorf("a name, or %v", err)
		}
	})
}

// bare is a driver with the methods of driver.Driver only.
type bare struct {
	driver.Driver
	traits driver.Traits
}

func (b bare) Traits() driver.Traits { return b.traits }

// What a backend does not claim is refused before anything is asked; a driver that claims what
// it has not is refused itself.
func TestUnclaimed(t *testing.T) {
	d := memory.NewStore().Driver(locker.TimeClock{})
	cfg := func() *locker.Config {
		cfg, err := locker.NewConfig[struct{}]("bare", nil, locker.WithClock(locker.TimeClock{}))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	l, err := locker.New(bare{d, driver.Traits{Backend: "bare"}}, cfg())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	lock, err := l.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	_, acquireShared := l.Acquire(t.Context(), "x", locker.Shared())
	_, acquirePermits := l.TryAcquire(t.Context(), "x", locker.Permits(1, 2))
	_, acquireAtLeast := l.TryAcquire(t.Context(), "x", locker.AtLeast(time.Second))
	_, inspect := locker.Inspect(t.Context(), l, "x")
	names := error(nil)
	for _, err := range locker.Names(t.Context(), l, "") {
		names = err
	}
	_, foreign := locker.Inspect(t.Context(), struct{ locker.Locker }{l}, "x")
	for what, err := range map[string]error{
		"Shared": acquireShared, "Permits": acquirePermits, "AtLeast": acquireAtLeast, "Downgrade": lock.Downgrade(t.Context()),
		"Inspect": inspect, "Names": names, "Evict": locker.Evict(t.Context(), l, locker.Position{Name: "x"}),
		"a Locker that does not unwrap": foreign,
	} {
		var e *locker.Error
		if !errors.Is(err, locker.ErrUnsupported) || !errors.As(err, &e) || e.Op == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, traits := range []driver.Traits{{Inspect: true}, {Evict: true}, {Downgrade: true}, {Linger: true}} {
		if _, err := locker.New(bare{d, traits}, cfg()); err == nil {
			t.Errorf("%+v is believed", traits)
		}
	}
}
