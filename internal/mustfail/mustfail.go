// Package mustfail runs, in a test that passes, what has to fail a test.
package mustfail

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Run calls f, on a goroutine of its own, with a testing.TB that takes down failures instead of failing t, and then the clean-ups
// of f; it returns the failures line by line, or why f was skipped, and whether it failed. What f logs goes to t.
func Run(t testing.TB, f func(t testing.TB)) (text string, failed bool) {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // which Fatal can end
		defer close(done)
		defer r.clean()
		f(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n"), r.failed
}

type recorder struct {
	testing.TB // for what is not recorded

	mu       sync.Mutex
	lines    []string
	failed   bool
	cleanups []func()
}

func (r *recorder) add(failed bool, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.lines = append(r.lines, line)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Helper()                           {}
func (r *recorder) Error(args ...any)                 { r.add(true, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func (r *recorder) Skipf(format string, args ...any) {
	r.add(false, fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) clean() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}
