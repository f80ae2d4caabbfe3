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
			Acquiring: func(ctx context.Context, name string) (context.Context, func(*locker.Lock, error)) {
				note("acquiring %s", name)
				return context.WithValue(ctx, key{}, name), func(lock *locker.Lock, err error) {
					note("acquired %v %v", lock != nil, errors.Is(err, locker.ErrNotAcquired))
				}
			},
			Releasing: func(ctx context.Context, lock *locker.Lock) (context.Context, func(error)) {
				note("releasing %s", lock.Name())
				return ctx, func(err error) { note("released %v", err) }
			},
			Lost:    func(lock *locker.Lock, _ error) { note("lost %s", lock.Name()) },
			Renewed: func(claims, unknown int, _ time.Duration) { note("renewed %d, %d unknown", claims, unknown) },
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
			"acquiring x", "acquired true false", "acquiring x", "acquired false true", "releasing x", "released <nil>",
			"acquiring y", "acquired true false", "cleanup y <nil>", "lost y", "renewed 1, 0 unknown",
		}
		if !slices.Equal(seen, want) {
			t.Errorf("seen %q", seen)
		}
	})
}
