package history

import (
	"fmt"
	"sort"
	"time"
)

// Overlap is two holders of one name at once, each with a proof.
type Overlap struct {
	First, Second *Holding
	For           time.Duration
	// Excused: a fault had destroyed the first holding at the server.
	Excused bool
	// SinceFault, if Excused, is how long after the fault the first still believed.
	SinceFault time.Duration
}

func (o Overlap) String() string {
	s := fmt.Sprintf("%v and %v both held for %v", o.First, o.Second, o.For)
	if o.Excused {
		s += fmt.Sprintf(" (the first had been destroyed %v before)", o.SinceFault)
	}
	return s
}

// Disorder is a token that is not greater than that of an earlier holder.
type Disorder struct{ Earlier, Later *Holding }

func (d Disorder) String() string {
	if d.Earlier.Token == d.Later.Token {
		return fmt.Sprintf("%v and %v have the same token", d.Earlier, d.Later)
	}
	return fmt.Sprintf("%v was granted before %v, and has the greater token", d.Earlier, d.Later)
}

// Swept is what Sweep found.
type Swept struct {
	Overlaps  []Overlap
	Disorders []Disorder
}

// Bad returns a line for everything that no fault excuses. Where there is much, only the first
// lines are read: tokens that are the same come first, what is only out of order follows
// of itself.
func (s Swept) Bad() []string {
	var bad, disorder []string
	for _, d := range s.Disorders {
		if d.Earlier.Token == d.Later.Token {
			bad = append(bad, d.String())
		} else {
			disorder = append(disorder, d.String())
		}
	}
	bad = append(bad, disorder...)
	for _, o := range s.Overlaps {
		if !o.Excused {
			bad = append(bad, o.String())
		}
	}
	return bad
}

func (s Swept) has(earlier, later *Holding) bool {
	for _, d := range s.Disorders {
		if d.Earlier == earlier && d.Later == later {
			return true
		}
	}
	return false
}

// Sweep goes through the holdings of each name in the order of their tokens, and
// measures what they overlap. Without tokens (all 0) it goes by the order of grants.
func (h *History) Sweep() Swept {
	var s Swept
	for _, ls := range h.byName() {
		sort.SliceStable(ls, func(i, j int) bool { return ls[i].Token < ls[j].Token })
		h.sweepName(&s, ls)
	}
	return s
}

func (h *History) sweepName(s *Swept, ls []*Holding) {
	fenced := h.fenced()
	// Who of those with lower tokens is proven longest, with a fault for an excuse and
	// without.
	var longest [2]*Holding
	for i, l := range ls {
		if fenced && i > 0 && ls[i-1].Token == l.Token {
			s.Disorders = append(s.Disorders, Disorder{ls[i-1], l})
		}
		for _, before := range longest {
			if before == nil || before.Proven() <= l.Grant {
				continue
			}
			at, excused := h.Destroyed(before)
			excused = excused && at < l.Grant
			if l.Proven() <= before.Grant {
				// One that came and went while the other with the lower token was yet to come.
				if fenced && !excused && before.proven() {
					s.Disorders = append(s.Disorders, Disorder{l, before})
				}
				continue
			}
			o := Overlap{First: before, Second: l, Excused: excused, For: time.Duration(min(before.Proven(), l.Proven()) - max(l.Grant, before.Grant))}
			if excused {
				o.SinceFault = time.Duration(before.Proven() - at)
			}
			s.Overlaps = append(s.Overlaps, o)
		}
		kind := 0
		if _, ok := h.Destroyed(l); ok {
			kind = 1
		}
		if longest[kind] == nil || l.Proven() > longest[kind].Proven() {
			longest[kind] = l
		}
	}
	if !fenced {
		return
	}
	// From the greatest token down: was one granted before a lower one was asked for?
	var first *Holding
	for i := len(ls) - 1; i >= 0; i-- {
		if first != nil && first.Grant < ls[i].Call && first.Token > ls[i].Token && !s.has(first, ls[i]) {
			s.Disorders = append(s.Disorders, Disorder{first, ls[i]})
		}
		if first == nil || ls[i].Grant < first.Grant {
			first = ls[i]
		}
	}
}
