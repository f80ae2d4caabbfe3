package faults

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/internal/stamp"
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

// TestStoppedServerMayDestroy: an etcd member that was stopped may have led, and revoke leases when it goes on. A single server, and
// one of several that are not etcd, destroys nothing.
func TestStoppedServerMayDestroy(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	for _, c := range []struct {
		on       Backend
		destroys bool
	}{{Etcd3, true}, {Etcd1, false}, {RedLock5, false}} {
		t.Run(c.on.Name, func(t *testing.T) {
			t.Parallel()
			x := newExam(t, StartOn(t, c.on))
			defer x.abort()
			began := stamp.Now()
			stopped := &history.Holding{Name: "x", Call: began, Grant: began, Alive: began + 1}
			x.Must((&campaign{x: x}).do(Step{Fault: pauseOne, For: 100 * time.Millisecond}))
			held := &history.Holding{Name: "x", Call: began, Grant: began, Alive: stamp.Now()}
			x.Must(x.rec.Close())
			h, err := history.Read(filepath.Join(x.dir, "*.jsonl"))
			x.Must(err)
			if _, destroyed := h.Destroyed(held); destroyed != c.destroys {
				t.Errorf("one who held when the server went on may have been destroyed: %v, want %v; faults: %+v", destroyed, c.destroys, h.Faults)
			}
			if at, destroyed := h.Destroyed(stopped); destroyed {
				t.Errorf("one that had ended before the server went on may have been destroyed, at %d: %+v", at, h.Faults)
			}
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
