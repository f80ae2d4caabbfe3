package redlock

import (
	"fmt"
	"testing"
	"time"
)

// What is a majority, for the lock and for the token, is redsync's word.
func TestRedsyncCounts(t *testing.T) {
	b := newDriver(t, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"})
	c := b.newClaim(newDriverClaim(t.Name(), 10*time.Second, false), b.tokens.stamp())
	for yes := range 6 {
		for unanswered := range 6 - yes {
			what := fmt.Sprintf("%d yes, %d no answer", yes, unanswered)
			ask := func(s *script) *round {
				r := &round{b: b, c: c, script: s, voters: make([]voter, 5)}
				for i := range r.voters {
					r.voters[i] = voter{r: r, answered: i < 5-unanswered, rep: reply{yes: i < yes}}
				}
				return r
			}
			if err := ask(bidScript).mutex().TryLock(); (err == nil) != (yes >= 3) {
				t.Errorf("%s: lock: %v", what, err)
			}
			if ok, err := ask(confirmScript).mutex().Extend(); ok != (yes >= 3) {
				t.Errorf("%s: token: %v %v", what, ok, err)
			}
		}
	}
}
