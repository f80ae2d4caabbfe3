// Package replica has what the tests of the adapters share: the Lockers of several replicas of a service, and what is told of
// them with more than one library.
package replica

import (
	"context"
	"testing"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/file"
	"github.com/seed80cd6120/locker/memory"
)

// closeAtEnd returns l, which is closed when the test ends; the test fails if err says that there is none.
func closeAtEnd(t testing.TB, l locker.Locker, err error) locker.Locker {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// New returns the Locker of a further replica whose locks are in s.
func New(t testing.TB, s *memory.Store) locker.Locker {
	t.Helper()
	l, err := s.Locker()
	return closeAtEnd(t, l, err)
}

// Remote returns the Locker of a further replica whose locks are in s, and its link.
func Remote(t testing.TB, s *memory.Store) (locker.Locker, *memory.Link) {
	t.Helper()
	l, link, err := s.Remote()
	return closeAtEnd(t, l, err), link
}

// Two returns the Lockers of two replicas.
func Two(t testing.TB) (a, b locker.Locker) {
	t.Helper()
	s := memory.NewStore()
	return New(t, s), New(t, s)
}

// Files returns the Locker of a further replica whose locks are files in dir.
func Files(t testing.TB, dir string) locker.Locker {
	t.Helper()
	l, err := file.New(dir)
	return closeAtEnd(t, l, err)
}

// Free fails the test if name is not free for l.
func Free(t testing.TB, l locker.Locker, name string) {
	t.Helper()
	lock, err := l.TryAcquire(context.Background(), name)
	if err != nil {
		t.Errorf("not free: %v", err)
		return
	}
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// CutOff returns a Locker, and a function that takes name from it for another replica, which keeps it until the test ends.
func CutOff(t testing.TB, name string) (l locker.Locker, cut func()) {
	t.Helper()
	s := memory.NewStore()
	l, other := New(t, s), New(t, s)
	return l, func() {
		s.Destroy(name) // the holder has been told when that returns
		lock, err := other.Acquire(context.Background(), name)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = lock.Release(context.Background()) })
	}
}
