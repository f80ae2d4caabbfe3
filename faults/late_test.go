package faults

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// How late or early: many holders at once are cut off, and killed, while others wait.
// Nothing beyond the four questions is asked; what is measured ends in the table.
func TestHowLate(t *testing.T) {
	servers.Need(t)
	if !full {
		t.Skip("part of make faults; the quick rows measure a little of it")
	}
	const n = 12
	for _, b := range Backends {
		if b.Name == RedisEmpty.Name {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			s := StartOn(t, b)
			t.Run("lost", func(t *testing.T) {
				Examine(t, s, func(x *Exam) {
					var cut []*Network
					var waits []<-chan Got
					for range n {
						a, net := x.Player("A")
						p, _ := x.Player("B")
						name := x.Lock()
						x.Acquired(a, name, 10*time.Second)
						waits = append(waits, x.Waits(p, name, 30*time.Second))
						cut = append(cut, net)
					}
					for _, net := range cut {
						net.Freeze()
						time.Sleep(x.Backend.TTL / 3 / n) // at every point between two renewals
					}
					for _, w := range waits {
						x.Released(x.Get(w))
					}
				})
			})
			t.Run("death", func(t *testing.T) {
				Examine(t, s, func(x *Exam) {
					var procs []*Process
					var waits []<-chan Got
					for range n {
						a, _ := x.Process("A")
						p, _ := x.Player("B")
						name := x.Lock()
						x.Taken(a, name, 10*time.Second)
						waits = append(waits, x.Waits(p, name, 30*time.Second))
						procs = append(procs, a)
					}
					var wg sync.WaitGroup
					for _, p := range procs {
						wg.Go(func() { x.Kill(p) })
						time.Sleep(x.Backend.TTL / 3 / n)
					}
					wg.Wait()
					for _, w := range waits {
						x.Released(x.Get(w))
					}
				})
			})
		})
	}
}

// keep writes what was measured to results/lateness.json, in a full run of everything.
func keep() error {
	if !full || flag.Lookup("test.run").Value.String() != "" || len(Measured()) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(map[string]any{
		"unit":  "ms",
		"lost":  "from the signal that a lock is lost to the next grant",
		"death": "from the death of a holder to the next grant",
		"ttl":   "2 s, but for the rows that say otherwise",
		"gaps":  Measured(),
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll("results", 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("results", "lateness.json"), append(text, '\n'), 0o644)
}
