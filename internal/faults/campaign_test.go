package faults

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// A redis-empty is put to the test by rows only: with faults that it cannot survive
// there is nothing to be random about.
func TestCampaign(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	named := strings.Contains(flag.Lookup("test.run").Value.String(), "TestCampaign/")
	for _, b := range Backends {
		if b.Name == RedisEmpty.Name || !Full && !named && !isQuick(b) && b.Name != RedisReplica.Name {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			defer working.enter()()
			NewCampaign(t, 200, 10_000).Run(t, StartOn(t, b))
		})
	}
}

func TestTheSeedIsTheSchedule(t *testing.T) {
	draw := func(seed uint64) []Step {
		return schedule(seed, time.Minute, 2*time.Second, 8, 3, 5, []string{restart, pauseOne, moveLeader})
	}
	a := draw(7)
	if !slices.Equal(a, draw(7)) {
		t.Error("the same seed gave two schedules")
	}
	if slices.Equal(a, draw(8)) {
		t.Error("two seeds gave the same schedule")
	}
	seen := map[string]bool{}
	for i, s := range a {
		seen[s.Fault] = true
		if i > 0 && s.At < a[i-1].At {
			t.Errorf("%v comes after %v", s, a[i-1])
		}
	}
	for _, f := range append(slices.Clone(userFaults), restart, pauseOne, moveLeader, expire) {
		if !seen[f] {
			t.Errorf("a minute without: %s", f)
		}
	}
}
