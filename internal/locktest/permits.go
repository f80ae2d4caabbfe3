package locktest

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
)

// NextPermit takes the two permits of name, of which one stays taken for a while after its release, has two others wait, and releases
// both. It fails the test unless the second who waits is granted a permit when that time is over. open opens a Locker with a long
// TTL, and waits returns when so many wait.
func NextPermit(t *testing.T, name string, open func() locker.Locker, waits func(n int)) {
	t.Helper()
	const d = 5 * time.Second
	two := locker.Permits(1, 2)
	holder := open()
	held, kept := Acquire(t, holder, name, two), Acquire(t, holder, name, two, locker.AtLeast(d))
	var waiters [2]*Acquisition[*locker.Lock]
	for i := range waiters {
		waiters[i] = Begin(Within(t, 2*time.Minute), open(), name, two)
		waits(i + 1)
	}
	Release(t, kept)
	Release(t, held)
	first := waiters[0].Granted(t, 30*time.Second)
	second := waiters[1].Granted(t, d+time.Second) // a look of its own comes after twenty
	Release(t, first)
	Release(t, second)
}
