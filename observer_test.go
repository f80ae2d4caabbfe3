package locker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// The observer is told of everything that happens, in pairs, and its context is the one that
// is used from there on.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf(format, args...))
		}
		type key struct{}
		s := memory.NewStore(locker.WithTTL(3 * time.Second))
		l := openStore(t, s, locker.WithObserver(&locker.Observer{
			Acquiring: func(ctx context.Context, a locker.Attempt) (context.Context, func(*locker.Lock, error)) {
				note("acquiring %+v", a)
				return context.WithValue(ctx, key{}, a.Name), func(lock *locker.Lock, err error) {
					note("acquired %v %v", lock != nil, errors.Is(err, locker.ErrNotAcquired))
				}
			},
			Releasing: func(ctx context.Context, lock *locker.Lock) (context.Context, func(error)) {
				note("releasing %s", lock.Name())
				return ctx, func(err error) { note("released %v", err) }
			},
			Lost:    func(lock *locker.Lock, _ error) { note("lost %s", lock.Name()) },
			Renewed: func(r locker.Renewal) { note("renewed %+v", r) },
			Cleanup: func(name string, err error) { note("cleanup %s %v", name, err) },
		}))
		lock, err := l.Acquire(t.Context(), "x")
		if err != nil || lock.Context().Value(key{}) != "x" {
			t.Fatal(err)
		}
		_, _ = l.TryAcquire(t.Context(), "x")
		_, _ = l.TryAcquire(t.Context(), "")
		_ = lock.Release(t.Context())
		_ = lock.Release(t.Context())
		if _, err := l.Acquire(t.Context(), "y"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		s.Destroy("y")
		synctest.Wait()
		slices.Sort(seen[7:]) // the last two may come in any order
		want := []string{
			"acquiring {Backend:memory Name:x Mode:exclusive Wait:true}", "acquired true false",
			"acquiring {Backend:memory Name:x Mode:exclusive Wait:false}", "acquired false true", "releasing x", "released <nil>",
			"acquiring {Backend:memory Name:y Mode:exclusive Wait:true}", "acquired true false", "cleanup y <nil>", "lost y",
			"renewed {Backend:memory Claims:1 Unknown:0 Took:0s Margin:1.935s}",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("seen %q", seen)
		}
	})
}

// An attempt tells the kind of lock, a renewal the least time that was left, and a loss by time is ErrOverdue.
func TestObserverModes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var modes []string
		var margins []time.Duration
		lost := make(chan error, 10)
		l, link, err := memory.NewStore().Remote(locker.WithTTL(3*time.Second), locker.WithObserver(&locker.Observer{
			Acquiring: func(ctx context.Context, a locker.Attempt) (context.Context, func(*locker.Lock, error)) {
				modes = append(modes, a.Mode)
				return ctx, nil
			},
			Renewed: func(r locker.Renewal) { margins = append(margins, r.Margin) },
			Lost:    func(_ *locker.Lock, reason error) { lost <- reason },
		}))
		if err != nil {
			t.Fatal(err)
		}
		for name, opts := range map[string][]locker.AcquireOption{
			"a": {locker.Shared()}, "b": {locker.Permits(1, 3)}, "c": {}, "d": {locker.WithLease(time.Minute)},
		} {
			if _, err := l.Acquire(t.Context(), name, opts...); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(modes)
		if want := []string{"exclusive", "exclusive", "permits", "shared"}; !slices.Equal(modes, want) {
			t.Errorf("modes %q", modes)
		}
		time.Sleep(1100 * time.Millisecond)
		link.Freeze()
		if reason := <-lost; !errors.Is(reason, locker.ErrOverdue) {
			t.Error(reason)
		}
		if len(margins) == 0 || margins[0] <= 0 || margins[0] >= 3*time.Second {
			t.Errorf("margins %v", margins)
		}
		link.Heal()
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
