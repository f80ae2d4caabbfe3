package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// Close while the connection is being made, with a context that has ended: for the race detector.
func TestCloseWhileDialling(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := front(t, z.Addr())
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range 30 {
		d, _, err := connect(within(t, 30*time.Second), []string{p.Addr()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Cut()
		time.Sleep(time.Duration(i%10) * 100 * time.Microsecond) // anywhere in the dialling
		start := time.Now()
		_ = d.Close(ended)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("close took %v", took)
		}
		for range d.session.events { // until the library has ended
		}
	}
}
