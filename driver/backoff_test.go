package driver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

func TestBackoff(t *testing.T) {
	var b driver.Backoff
	for i, longest := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000} {
		longest *= time.Millisecond
		if d := b.Next(); d < longest/2 || d >= longest {
			t.Errorf("pause %d is %v, want %v to %v", i+1, d, longest/2, longest)
		}
	}
	b = driver.Backoff{}
	if d := b.Next(); d >= 10*time.Millisecond {
		t.Errorf("the first pause is %v", d)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b.Sleep(t.Context())
		if d := time.Since(start); d < 10*time.Millisecond || d >= 20*time.Millisecond {
			t.Errorf("the second pause is %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start = time.Now()
		b.Sleep(ctx)
		if d := time.Since(start); d > 0 {
			t.Errorf("%v after its ctx ended", d)
		}
	})
}
