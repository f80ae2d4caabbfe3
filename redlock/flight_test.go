package redlock

import (
	"sync"
	"testing"
)

// Requests begin while Close waits, and Close waits for those that were there.
func TestRequestsBeginWhileCloseWaits(t *testing.T) {
	var f flight
	f.begin()
	over := make(chan struct{})
	go func() {
		f.wait()
		close(over)
	}()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				f.begin()
				f.end()
			}
		})
	}
	wg.Wait()
	select {
	case <-over:
		t.Fatal("it did not wait for the first")
	default:
	}
	f.end()
	<-over
	f.wait() // there is none
}
