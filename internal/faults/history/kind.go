package history

import (
	"fmt"

	"github.com/seed80cd6120/locker/driver"
)

// Share is how much of a name a claim takes: its weight and its limit, see [driver.Claim]. The zero value is exclusive.
type Share struct {
	Weight int32 `json:"weight,omitempty"`
	Limit  int32 `json:"limit,omitempty"`
}

// Shared is the Share of a shared claim.
var Shared = Share{1, driver.All}

// Permits returns the Share of k of n permits.
func Permits(k, n int) Share { return Share{int32(k), int32(n)} }

// Exclusive reports whether s is all of the name.
func (s Share) Exclusive() bool { return s == Share{} }

func (s Share) weight() int32 {
	if s.Exclusive() {
		return driver.All
	}
	return s.Weight
}

func (s Share) limit() int32 {
	if s.Exclusive() {
		return driver.All
	}
	return s.Limit
}

// fits reports whether a claim like s is granted while claims of that weight together hold the name.
func (s Share) fits(held int64) bool { return driver.Fits(held, s.weight(), s.limit()) }

// excludes reports whether a claim like s cannot hold the name together with one like earlier, which came before.
func (s Share) excludes(earlier Share) bool { return !s.fits(int64(earlier.weight())) }

// apart reports whether claims like s and o never hold the name together, whichever came first.
func (s Share) apart(o Share) bool { return s.excludes(o) && o.excludes(s) }

// suffix is what a picture says of s behind "acquire".
func (s Share) suffix() string {
	switch s {
	case Share{}:
		return ""
	case Shared:
		return " shared"
	}
	return fmt.Sprintf(" %d of %d", s.Weight, s.Limit)
}

// feasible reports whether claims that hold a name together can have been granted in some order: of those whose limit is no more than
// some one's, the last was granted with a weight of no more than that together.
func feasible(weights, limits []int32) bool {
	for _, most := range limits {
		sum := int64(0)
		for i, weight := range weights {
			if limits[i] <= most {
				sum += int64(weight)
			}
		}
		if sum > int64(most) {
			return false
		}
	}
	return true
}

// passedOn returns those holdings, of one name, that another goroutine of their process has passed on to them: their tokens are one
// more than those of an equal holding there. They have the place in the order that their lease got when it was granted, ahead
// of all that were granted behind it since.
func passedOn(ls []*Holding) map[*Holding]bool {
	type key struct {
		proc  string
		share Share
		token int64
	}
	known := make(map[key]bool)
	for _, l := range ls {
		known[key{l.Proc, l.Share, l.Token}] = true
	}
	passed := make(map[*Holding]bool)
	for _, l := range ls {
		if l.Token > 0 && known[key{l.Proc, l.Share, l.Token - 1}] {
			passed[l] = true
		}
	}
	return passed
}
