package eventually

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/mustfail"
)

func TestWithin(t *testing.T) {
	var looks int
	Is(t, "looked three times", func() bool { looks++; return looks == 3 })

	looks = 0
	Within(t, time.Millisecond, "one look takes longer than there is time", func() bool {
		time.Sleep(5 * time.Millisecond)
		looks++
		return looks == 2
	})

	said, _ := mustfail.Run(t, func(t testing.TB) {
		Within(t, 10*time.Millisecond, "pigs fly", func() bool { return false })
	})
	if said != "not within 10ms: pigs fly" {
		t.Errorf("it said %q", said)
	}
}
