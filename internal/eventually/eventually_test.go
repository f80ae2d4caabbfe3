package eventually

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// fatal notes what a test would die of.
type fatal struct {
	testing.TB
	said string
}

func (f *fatal) Helper() {}

func (f *fatal) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestWithin(t *testing.T) {
	var looks int
	Is(t, "looked three times", func() bool { looks++; return looks == 3 })

	looks = 0
	Within(t, time.Millisecond, "one look takes longer than there is time", func() bool {
		time.Sleep(5 * time.Millisecond)
		looks++
		return looks == 2
	})

	var f fatal
	done := make(chan struct{})
	go func() {
		defer close(done)
		Within(&f, 10*time.Millisecond, "pigs fly", func() bool { return false })
	}()
	<-done
	if f.said != "not within 10ms: pigs fly" {
		t.Errorf("it said %q", f.said)
	}
}
