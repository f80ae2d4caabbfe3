// Package replica has what the tests of the adapters share.
package replica

import (
	"context"
	"testing"

	"github.com/seed80cd6120/locker"
)

// CloseAtEnd returns l, which is closed when the test ends; the test fails if err says that there is none.
func CloseAtEnd(t testing.TB, l locker.Locker, err error) locker.Locker {
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
