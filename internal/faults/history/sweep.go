package history

import (
	"cmp"
	"fmt"
	"slices"
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
		if slices.ContainsFunc(ls, func(l *Holding) bool { return !l.Exclusive() || l.Downs != 0 }) {
			h.sweepKinds(&s, ls)
			continue
		}
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

// sweepKinds does the same for a name of which there are claims of several kinds: at every moment there is an order in
// which those who are proven to hold can have been granted.
func (h *History) sweepKinds(s *Swept, ls []*Holding) {
	var holding []*Holding
	for _, l := range ls { // by Grant
		holding = slices.DeleteFunc(holding, func(o *Holding) bool { return o.Proven() <= l.Grant })
		if l.Proven() > l.Grant {
			h.sweepTogether(s, holding, l)
			holding = append(holding, l)
		}
	}
	if h.fenced() {
		sweepTokens(s, ls)
	}
}

// sweepTogether notes an overlap if l and those who hold already are too many.
func (h *History) sweepTogether(s *Swept, holding []*Holding, l *Holding) {
	var weights, limits []int32
	var longest *Holding
	for _, o := range append(slices.Clone(holding), l) {
		weights, limits = append(weights, o.weightAt(l.Grant)), append(limits, o.limit())
		if o != l && (longest == nil || o.Proven() > longest.Proven()) {
			longest = o
		}
	}
	if longest == nil || feasible(weights, limits) {
		return
	}
	o := Overlap{First: longest, Second: l, For: time.Duration(min(longest.Proven(), l.Proven()) - l.Grant)}
	for _, other := range holding {
		if at, ok := h.Destroyed(other); ok && at < l.Grant {
			o.Excused, o.SinceFault = true, time.Duration(other.Proven()-at)
		}
	}
	s.Overlaps = append(s.Overlaps, o)
}

// weightAt is how much of the name l holds at a moment, at least.
func (l *Holding) weightAt(t int64) int32 {
	if l.Downs != 0 && l.Downs <= t {
		return Shared.weight()
	}
	return l.weight()
}

// sweepTokens notes those who were asked for when another had been granted that they cannot overlap with, and have no
// greater token.
func sweepTokens(s *Swept, ls []*Holding) {
	asked := slices.SortedStableFunc(slices.Values(ls), func(a, b *Holding) int { return cmp.Compare(a.Call, b.Call) })
	passed := passedOn(ls)
	greatest := map[Share]*Holding{}
	granted := 0
	for _, l := range asked {
		for ; granted < len(ls) && ls[granted].Grant < l.Call; granted++ {
			if g := greatest[ls[granted].Share]; g == nil || g.Token < ls[granted].Token {
				greatest[ls[granted].Share] = ls[granted]
			}
		}
		for share, before := range greatest {
			apart := l.excludes(share) && (!passed[l] || share.excludes(l.Share))
			if apart && l.Token <= before.Token {
				s.Disorders = append(s.Disorders, Disorder{before, l})
			}
		}
	}
}
