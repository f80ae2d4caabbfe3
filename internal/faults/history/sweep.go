package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Overlap is two holders of one name at once, each with a proof.
type Overlap struct {
	First, Second *Holding
	For           time.Duration
	// Excused: a fault had destroyed one of the two at the server.
	Excused bool
	// SinceFault, if Excused, is how long after the fault its holder still believed.
	SinceFault time.Duration
}

func (o Overlap) String() string {
	s := fmt.Sprintf("%v and %v both held for %v", o.First, o.Second, o.For)
	if o.Excused {
		s += fmt.Sprintf(" (one had been destroyed %v before)", o.SinceFault)
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

// Sweep goes through the holdings of each name and finds the moments for which more are proven to hold than there is an
// order in which they can have been granted, and tokens that are no greater than they should be.
func (h *History) Sweep() Swept {
	var s Swept
	for _, ls := range h.byName() {
		var holding []*Holding
		for _, l := range ls { // by Grant
			holding = slices.DeleteFunc(holding, func(o *Holding) bool { return o.Proven() <= l.Grant })
			if l.Proven() > l.Grant {
				h.sweepTogether(&s, holding, l)
				holding = append(holding, l)
			}
		}
		if h.fenced() {
			h.sweepTokens(&s, ls)
		}
	}
	return s
}

// sweepTogether notes an overlap if l and those who hold already are too many. It is excused if they are not without those
// whom a fault had destroyed by then, and those who came after a fault had destroyed l: they had the name before the acquisition
// of l, which was on its way, returned.
func (h *History) sweepTogether(s *Swept, holding []*Holding, l *Holding) {
	longest := tooMany(holding, l)
	if longest == nil {
		return
	}
	o := Overlap{First: longest, Second: l}
	var since int64
	itself, destroyed := h.Destroyed(l)
	intact := slices.DeleteFunc(slices.Clone(holding), func(other *Holding) bool {
		if at, ok := h.Destroyed(other); ok && at < l.Grant {
			since = other.Proven() - at
			return true
		}
		if destroyed && itself < other.Grant && l.Token <= other.Token {
			since = l.Proven() - itself
			return true
		}
		return false
	})
	if first := tooMany(intact, l); first != nil {
		o.First = first
	} else {
		o.Excused, o.SinceFault = true, time.Duration(since)
	}
	o.For = time.Duration(min(o.First.Proven(), l.Proven()) - l.Grant)
	s.Overlaps = append(s.Overlaps, o)
}

// tooMany returns which of those who hold is proven longest, if they cannot hold together with l, and nil if they can.
func tooMany(holding []*Holding, l *Holding) (longest *Holding) {
	weights, limits := []int32{l.weightAt(l.Grant)}, []int32{l.limit()}
	for _, o := range holding {
		weights, limits = append(weights, o.weightAt(l.Grant)), append(limits, o.limit())
		if longest == nil || o.Proven() > longest.Proven() {
			longest = o
		}
	}
	if feasible(weights, limits) {
		return nil
	}
	return longest
}

// weightAt is how much of the name l holds at a moment, at least.
func (l *Holding) weightAt(t int64) int32 {
	if l.Downs != 0 && l.Downs <= t {
		return Shared.weight()
	}
	return l.weight()
}

// sweepTokens notes those who have no greater token than another that they cannot overlap with, and who were asked for when that
// had been granted, or who are proven to hold after it was. In the second case it is not known who came first.
func (h *History) sweepTokens(s *Swept, ls []*Holding) {
	same := make(map[int64]*Holding)
	for _, l := range ls {
		if o := same[l.Token]; o != nil && l.excludes(o.Share) {
			s.Disorders = append(s.Disorders, Disorder{o, l})
		}
		same[l.Token] = l
	}
	passed := passedOn(ls)
	s.inTurn(ls, (*Holding).granted, (*Holding).called, func(l *Holding) bool { return passed[l] })
	proven := slices.DeleteFunc(slices.Clone(ls), func(l *Holding) bool {
		_, destroyed := h.Destroyed(l)
		return destroyed || !l.proven()
	})
	s.inTurn(proven, (*Holding).Proven, (*Holding).granted, func(*Holding) bool { return true })
}

func (h *Holding) called() int64  { return h.Call }
func (h *Holding) granted() int64 { return h.Grant }

// inTurn notes those whose token is no greater than that of another whose moment before is earlier than their moment after, and
// that they exclude; each the other, if it may be that they came first.
func (s *Swept) inTurn(ls []*Holding, before, after func(*Holding) int64, first func(*Holding) bool) {
	by := func(moment func(*Holding) int64) []*Holding {
		return slices.SortedStableFunc(slices.Values(ls), func(a, b *Holding) int { return cmp.Compare(moment(a), moment(b)) })
	}
	earlier := by(before)
	greatest := map[Share]*Holding{}
	for _, l := range by(after) {
		for len(earlier) > 0 && before(earlier[0]) < after(l) {
			if g := greatest[earlier[0].Share]; g == nil || g.Token < earlier[0].Token {
				greatest[earlier[0].Share] = earlier[0]
			}
			earlier = earlier[1:]
		}
		for share, o := range greatest {
			apart := l.apart(share) || l.excludes(share) && !first(l)
			if apart && l.Token <= o.Token && !s.has(o, l) {
				s.Disorders = append(s.Disorders, Disorder{o, l})
			}
		}
	}
}
