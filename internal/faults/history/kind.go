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
