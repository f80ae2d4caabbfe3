//go:build !linux

package proxy

import "time"

// sleeper sleeps as precisely as Go's timers do.
type sleeper struct{}

func (*sleeper) sleep(d time.Duration) { time.Sleep(d) }
