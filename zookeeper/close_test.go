package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
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
		must(t, err)
		p.Cut()
		time.Sleep(time.Duration(i%10) * 100 * time.Microsecond) // anywhere in the dialling
		inTime := locktest.Limit(t, 2*time.Second)
		_ = d.Close(ended)
		inTime("close")
		for range d.session.events { // until the library has ended
		}
	}
}
