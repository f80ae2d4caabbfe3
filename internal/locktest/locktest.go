// Package locktest has what the tests of every backend do with a Locker.
package locktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/lateness"
	"github.com/seed80cd6120/locker/internal/proxy"
)

// patience is how long a call may take on a machine that does other things too.
const patience = 2 * time.Minute

// patient returns the context of such a call.
func patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// Within returns a context that ends after d, and with the test.
func Within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Acquire acquires the name, and ends the test if it cannot.
func Acquire(t testing.TB, l locker.Locker, name string, opts ...locker.AcquireOption) *locker.Lock {
	t.Helper()
	ctx, cancel := patient()
	defer cancel()
	lock, err := l.Acquire(ctx, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// Pace returns about how long this machine takes to acquire n names.
func Pace(t testing.TB, l locker.Locker, n int) time.Duration {
	t.Helper()
	start := time.Now()
	for i := range n / 50 {
		Acquire(t, l, fmt.Sprint("pace ", i))
	}
	return 50 * time.Since(start)
}

// Release releases the lock, and ends the test if that fails, unless it was given up late.
func Release(t testing.TB, lock *locker.Lock) {
	t.Helper()
	ctx, cancel := patient()
	defer cancel()
	Must(t, Freed(ctx, lock))
}

// Freed releases the lock; it returns no error when that was given up late.
func Freed(ctx context.Context, lock *locker.Lock) error {
	begun := time.Now()
	err := lock.Release(ctx)
	if GaveUp(err, begun) {
		return nil
	}
	return err
}

// GaveUp reports whether a Release that began then was given up after five seconds, which says that this machine or the server was
// late: the release goes on in the background.
func GaveUp(err error, begun time.Time) bool {
	return err != nil && !errors.Is(err, locker.ErrLost) && time.Since(begun) >= 5*time.Second
}

// Must ends the test if one of errs is an error.
func Must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// CloseAfter has Close called when the test ends.
func CloseAfter(t testing.TB, end func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() { Close(t, end) })
}

// Close calls a Locker's Close. That this fails is no failure of the test, which may have taken the servers away.
func Close(t testing.TB, end func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := end(ctx); err != nil {
		t.Logf("close: %v", err)
	}
}

// Limit returns a function that fails the test, and says what was too slow, if it is called more than d after Limit was, and after
// what this machine was late by meanwhile.
func Limit(t testing.TB, d time.Duration) (check func(what string)) {
	t.Helper()
	late, giveBack := lateness.Share()
	t.Cleanup(giveBack)
	start := time.Now()
	return func(what string) {
		t.Helper()
		if took, slack := time.Since(start), late.Slack(start); took > d+slack {
			t.Errorf("%s took %v, more than %v and %v for a late machine", what, took, d, slack)
		}
	}
}

// Fronts puts a proxy before each server, until the test ends. It returns their addresses, too.
func Fronts(t testing.TB, addrs []string) (proxy.Set, []string) {
	t.Helper()
	s, err := proxy.NewSet(addrs)
	Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, s.Addrs()
}

// Front is Fronts for one server.
func Front(t testing.TB, addr string) *proxy.Proxy {
	t.Helper()
	s, _ := Fronts(t, []string{addr})
	return s[0]
}

// Recording is Front, and a function that reports whether a client has sent the text by that proxy.
func Recording(t testing.TB, addr string) (p *proxy.Proxy, sent func(text string) bool) {
	t.Helper()
	var mu sync.Mutex
	var all []byte
	p = Front(t, addr)
	p.SwallowReply(func(request []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, request...)
		return false
	}, 0)
	return p, func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		return bytes.Contains(all, []byte(text))
	}
}
