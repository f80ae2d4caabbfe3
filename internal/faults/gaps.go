package faults

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
)

// Gap is the time from the end of a holding that was not given back to the next grant
// to somebody who was waiting.
type Gap struct {
	Kind string // "lost": from the signal to the holder; "death": from the kill
	Gap  time.Duration
	From *history.Holding
	To   *history.Holding
}

func (g Gap) String() string {
	return fmt.Sprintf("%v from %s of %v to the next grant", g.Gap.Round(100*time.Microsecond), g.Kind, g.From)
}

// gaps finds them in a history.
func gaps(h *history.History) []Gap {
	names := make(map[string][]*history.Holding)
	for _, l := range h.Holdings {
		names[l.Name] = append(names[l.Name], l)
	}
	var found []Gap
	for _, ls := range names {
		for i, l := range ls[:len(ls)-1] {
			next := ls[i+1]
			if _, destroyed := h.Destroyed(l); destroyed || !l.Exclusive() || !next.Exclusive() {
				continue
			}
			// One that did not run could not be told.
			ran := l.Lost-l.Alive < int64(100*time.Millisecond)
			if l.Lost != 0 && ran && next.Call < l.Lost {
				found = append(found, Gap{"lost", time.Duration(next.Grant - l.Lost), l, next})
			}
			ended := l.Lost != 0 || l.Release != 0
			if l.Died != 0 && !ended && next.Call < l.Died {
				found = append(found, Gap{"death", time.Duration(next.Grant - l.Died), l, next})
			}
		}
	}
	slices.SortFunc(found, func(a, b Gap) int { return cmp.Compare(a.From.Grant, b.From.Grant) })
	return found
}

// measured collects the gaps of all rows and campaigns, by backend and kind.
var measured = struct {
	sync.Mutex
	gaps map[[2]string][]time.Duration
}{gaps: make(map[[2]string][]time.Duration)}

func measure(backend string, h *history.History) {
	measured.Lock()
	defer measured.Unlock()
	for _, g := range gaps(h) {
		of := [2]string{backend, g.Kind}
		measured.gaps[of] = append(measured.gaps[of], g.Gap)
	}
}
