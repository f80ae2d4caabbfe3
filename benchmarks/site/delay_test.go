package site

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A round trip takes longer by what it is delayed, and the servers outlive the network.
func TestDelayed(t *testing.T) {
	servers.Need(t)
	s := start(t, contender.Setup{Service: contender.Redis, Nodes: 1})
	const delay = 20 * time.Millisecond
	d, err := s.Delayed(delay)
	must(t, err)
	client := dial.Redis(d.Addrs[0])
	defer client.Close()
	for range 2 { // the first connects
		start := time.Now()
		must(t, client.Ping(t.Context()).Err())
		if took := time.Since(start); took < delay {
			t.Errorf("a request took %v, want at least %v", took, delay)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Redis[0].Do(t.Context(), "PING"); err != nil {
		t.Errorf("the server went with the network: %v", err)
	}
}
