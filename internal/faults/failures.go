package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What failed is said once more at the very end, in a line each: a reader who sees
// only the last lines of a run is to see which row it was.
var failures struct {
	sync.Mutex
	said []string
}

// Failures returns a line for every row and campaign of a test that failed so far, with
// its first complaint.
func Failures() []string {
	failures.Lock()
	defer failures.Unlock()
	return slices.Clone(failures.said)
}

// complain notes the first complaint of a test.
func (x *Exam) complain(text string) {
	if _, real := x.TB.(*testing.T); !real || !x.complained.CompareAndSwap(false, true) {
		return
	}
	const most = 300
	text, _, _ = strings.Cut(text, "\n")
	failures.Lock()
	defer failures.Unlock()
	failures.said = append(failures.said, fmt.Sprintf("FAILED %s: %.*s", x.Name(), most, text))
}

// Error is that of testing.TB, and so are the next.
func (x *Exam) Error(args ...any) {
	x.Helper()
	x.complain(fmt.Sprint(args...))
	x.TB.Error(args...)
}

func (x *Exam) Fatal(args ...any) {
	x.Helper()
	x.complain(fmt.Sprint(args...))
	x.TB.Fatal(args...)
}

func (x *Exam) Errorf(format string, args ...any) { x.Helper(); x.Error(fmt.Sprintf(format, args...)) }
func (x *Exam) Fatalf(format string, args ...any) { x.Helper(); x.Fatal(fmt.Sprintf(format, args...)) }

var _ testing.TB = (*Exam)(nil)
