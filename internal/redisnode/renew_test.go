package redisnode

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Renew runs a few scripts at a time, however many holdings there are.
func TestRenewIsAFewRequestsAtATime(t *testing.T) {
	client := connect(t, servers.SharedRedis(t).Addr())
	n := open(t, client)
	var now, most, sent atomic.Int64
	client.AddHook(hook{func() {
		sent.Add(1)
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
	}})
	const scripts = 5 * atOnce
	var claims []*driver.Claim
	for range scripts * batch {
		claims = append(claims, n.exclusive(t.Name()).Claim)
	}
	reports := 0
	n.Renew(within(t, 20*time.Second), claims, func(_ *driver.Claim, _ driver.Instant, err error) {
		reports++
		if !errors.Is(err, driver.ErrGone) {
			t.Error(err)
		}
	})
	if reports != len(claims) || sent.Load() < scripts || most.Load() > atOnce {
		t.Errorf("%d reports of %d claims by %d requests, up to %d at once, want %d", reports, len(claims), sent.Load(), most.Load(), atOnce)
	}
}
