// Package late holds what protects data by tokens to one story: a holder is paused past the end of its lock, another takes the
// lock and writes, and what the first writes then is refused.
package late

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// Holders returns two locks of one name, of which the first has been lost to the second: its holder was cut off from the
// server, as one that is paused is, until the other had waited for the end of the TTL.
func Holders(t *testing.T) (lost, held *locker.Lock) {
	t.Helper()
	store := memory.NewStore(locker.WithTTL(200 * time.Millisecond))
	a, link, err := store.Remote()
	if err != nil {
		t.Fatal(err)
	}
	b, err := store.Locker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, l := range []locker.Locker{a, b} {
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	if lost, err = a.Acquire(t.Context(), "orders/42"); err != nil {
		t.Fatal(err)
	}
	link.Freeze()
	if held, err = b.Acquire(t.Context(), "orders/42"); err != nil {
		t.Fatal(err)
	}
	link.Heal()
	return lost, held
}

// Test tells the story of the package with write, which writes value under a token, and read, which returns the last value written.
// late is the error of a write that is refused.
func Test(t *testing.T, write func(ctx context.Context, token int64, value string) error, read func(ctx context.Context) (string, error), late error) {
	t.Helper()
	lost, held := Holders(t)
	for _, step := range []struct {
		lock  *locker.Lock
		value string
		err   error
		after string
	}{
		{lost, "first", nil, "first"}, // written before the pause
		{held, "second", nil, "second"},
		{lost, "late", late, "second"},
		{held, "third", nil, "third"}, // a holder may write as often as it likes
		{lost, "later still", late, "third"},
	} {
		if err := write(t.Context(), step.lock.Token(), step.value); !errors.Is(err, step.err) {
			t.Errorf("write %q: %v, want %v", step.value, err, step.err)
		}
		if value, err := read(t.Context()); err != nil || value != step.after {
			t.Errorf("after %q there is %q (%v), want %q", step.value, value, err, step.after)
		}
	}
}
