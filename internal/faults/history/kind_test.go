package history

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// made is a holding that is made up: it holds the name until a moment, though its holder may believe so for longer.
type made struct {
	*Holding
	until int64
}

// mixed makes up the history of a name with claims of all kinds, each granted by the one rule: a queue that is
// served from its head. Some acquisitions return late. Some who hold the name exclusively share it later. If faults is
// true some die, fail to release, or are destroyed.
func mixed(rng *rand.Rand, n int, faults bool) *History {
	kinds := []Share{{}, Shared, Shared, Permits(1, 3), Permits(2, 3)}
	h := &History{}
	var now, token int64
	var holding []made
	for op := range n {
		share := kinds[rng.IntN(len(kinds))]
		token += 1 + rng.Int64N(3)
		now += 1 + rng.Int64N(ms)
		l := &Holding{Proc: string(rune('A' + op%16)), Op: op + 1, Name: "x", Share: share, Token: token, Call: now - rng.Int64N(ms)}
		for !share.fits(weigh(holding, now)) { // until one ends, or shares
			next := holding[0].until
			for _, o := range holding {
				next = min(next, o.until)
				if o.Downed > now {
					next = min(next, o.Downed)
				}
			}
			now = max(now, next) + 1
			holding = live(holding, now)
		}
		l.Call = min(l.Call, now-1)
		l.Grant = now
		if rng.IntN(4) == 0 {
			l.Grant += rng.Int64N(8 * ms)
		}
		l.Alive = l.Grant + rng.Int64N(8*ms)
		if share.Exclusive() && rng.IntN(3) == 0 {
			l.Downs = l.Grant + 1
			l.Downed = l.Downs + rng.Int64N(ms)
			l.Alive = max(l.Alive, l.Downed+ms)
		}
		m := made{l, l.Alive}
		if faults && l.Downs == 0 && rng.IntN(4) == 0 {
			m.until = now + rng.Int64N(l.Alive-now+1)
			h.Faults = append(h.Faults, Event{Kind: Fault, Name: "x", Destroys: true, T: m.until - rng.Int64N(ms), Until: m.until + rng.Int64N(ms)})
			l.Lost = l.Alive + rng.Int64N(ms)
			if share.Exclusive() && rng.IntN(2) == 0 {
				l.Downs = max(l.Grant, m.until) + 1 + rng.Int64N(2*ms) // it is refused
			}
		} else {
			switch l.Release = l.Alive; {
			case !faults || rng.IntN(3) > 0:
				l.Released, l.Freed = l.Release+1, true
				if faults {
					l.Released += rng.Int64N(2 * ms)
					m.until = l.Release + rng.Int64N(l.Released-l.Release)
				}
			case rng.IntN(2) == 0: // with an error
				l.Released = l.Release + rng.Int64N(2*ms)
				m.until = l.Release + rng.Int64N(l.Released-l.Release+int64(slack)/8)
			default:
				l.Died, l.Release = l.Release+rng.Int64N(ms), 0
				m.until = l.Alive + rng.Int64N(l.Died-l.Alive+int64(slack)/8)
			}
		}
		holding = append(live(holding, now), m)
		h.Holdings = append(h.Holdings, l)
		h.End = max(h.End, l.Released, l.Lost)
	}
	slices.SortStableFunc(h.Holdings, func(a, b *Holding) int { return cmp.Compare(a.Grant, b.Grant) })
	slices.SortFunc(h.Faults, func(a, b Event) int { return cmp.Compare(a.T, b.T) })
	return h
}

func live(all []made, now int64) (still []made) {
	for _, m := range all {
		if m.until >= now {
			still = append(still, m)
		}
	}
	return still
}

func weigh(all []made, now int64) (sum int64) {
	for _, m := range live(all, now) {
		weight := m.weight()
		if m.Downed != 0 && m.Downed < now {
			weight = 1
		}
		sum += int64(weight)
	}
	return sum
}

func TestGoodHistoriesOfAllKindsAreLegal(t *testing.T) {
	for seed := range uint64(500) {
		h := mixed(rand.New(rand.NewPCG(seed, 2)), 60, seed%2 == 1)
		if v, bad := judge(t, h, ""); !v.Legal || len(bad) > 0 {
			t.Fatalf("seed %d: porcupine says legal: %v; the sweep: %v", seed, v.Legal, bad)
		}
	}
}

// A holder whose lock a fault has destroyed may ask for a downgrade before it is told: while others hold the name already.
func TestDowngradeOfADestroyedLock(t *testing.T) {
	for name, c := range map[string]struct {
		downed int64
		next   Share
		over   int64 // when the fault was
		legal  bool
	}{
		"refused, a reader holds":               {0, Shared, 3, true},
		"refused, a writer holds":               {0, Share{}, 3, true},
		"carried out, though a reader held":     {5*ms + 1, Shared, 3, false},
		"carried out, though a writer held":     {5*ms + 1, Share{}, 3, false},
		"carried out during the fault, readers": {5*ms + 1, Shared, 8, true},
		"carried out during the fault, writers": {5*ms + 1, Share{}, 8, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := holds(Share{}, 1, 1, 6)
			l.Downs, l.Downed = 5*ms, c.downed
			l.Lost, l.Release, l.Released, l.Freed = 7*ms, 0, 0, false
			h := &History{
				End: 10 * ms, Holdings: []*Holding{l, holds(c.next, 2, 4, 9)},
				Faults: []Event{{Kind: Fault, Name: "x", Destroys: true, T: 2 * ms, Until: c.over * ms}},
			}
			v, bad := judge(t, h, "")
			if v.Legal != c.legal || len(bad) > 0 {
				t.Errorf("porcupine says legal: %v, want %v; the sweep: %v", v.Legal, c.legal, bad)
			}
		})
	}
}

// holds is one that looked all the time from its grant on, and gave the name back at its end.
func holds(share Share, token, grant, end int64) *Holding {
	return &Holding{
		Proc: string(rune('A' + token)), Op: 1, Name: "x", Share: share, Token: token,
		Call: grant*ms - 1, Grant: grant * ms, Alive: end * ms, Release: end * ms, Released: end*ms + 1, Freed: true,
	}
}

// What the rule allows and what it does not, by the smallest histories of each.
func TestKinds(t *testing.T) {
	one, two, three := Permits(1, 3), Permits(2, 3), Permits(3, 3)
	down := func(l *Holding, at int64) *Holding {
		l.Downs, l.Downed = at*ms, at*ms+1
		return l
	}
	by := func(proc string, l *Holding) *Holding {
		l.Proc, l.Op = proc, int(l.Token)
		return l
	}
	unsure := func(l *Holding) *Holding {
		l.Downed = 0
		return l
	}
	called := func(l *Holding, at int64) *Holding {
		l.Call = at*ms + 1
		return l
	}
	lost := func(l *Holding) *Holding {
		l.Lost, l.Release, l.Released, l.Freed = l.Alive+1, 0, 0, false
		return l
	}
	for name, c := range map[string]struct {
		legal    bool
		holdings []*Holding
	}{
		"readers together":                                          {true, []*Holding{holds(Shared, 1, 1, 9), holds(Shared, 2, 2, 9), holds(Shared, 3, 3, 9)}},
		"readers, tokens in any order":                              {true, []*Holding{holds(Shared, 3, 1, 9), holds(Shared, 1, 2, 9), holds(Shared, 2, 3, 9)}},
		"a writer among readers":                                    {false, []*Holding{holds(Shared, 1, 1, 9), holds(Share{}, 2, 2, 5)}},
		"a reader under a writer":                                   {false, []*Holding{holds(Share{}, 1, 1, 9), holds(Shared, 2, 2, 5)}},
		"a writer after readers":                                    {true, []*Holding{holds(Shared, 1, 1, 4), holds(Shared, 2, 2, 4), holds(Share{}, 3, 5, 9)}},
		"a writer's token below a reader's":                         {false, []*Holding{holds(Shared, 3, 1, 4), holds(Share{}, 2, 5, 9)}},
		"a reader's token below a writer's":                         {false, []*Holding{holds(Share{}, 3, 1, 4), holds(Shared, 2, 5, 9)}},
		"three permits":                                             {true, []*Holding{holds(one, 1, 1, 9), holds(two, 2, 2, 9)}},
		"four permits of three":                                     {false, []*Holding{holds(two, 1, 1, 9), holds(two, 2, 2, 9)}},
		"the fourth of three":                                       {false, []*Holding{holds(one, 1, 1, 9), holds(one, 2, 2, 9), holds(one, 3, 3, 9), holds(one, 4, 4, 9)}},
		"a permit under a writer":                                   {false, []*Holding{holds(Share{}, 1, 1, 9), holds(one, 2, 2, 5)}},
		"a reader after a downgrade":                                {true, []*Holding{down(holds(Share{}, 1, 1, 9), 3), holds(Shared, 2, 4, 8)}},
		"a reader before the downgrade":                             {false, []*Holding{down(holds(Share{}, 1, 1, 9), 6), holds(Shared, 2, 4, 5)}},
		"a reader after a downgrade that may have been carried out": {true, []*Holding{unsure(down(holds(Share{}, 1, 1, 9), 3)), holds(Shared, 2, 4, 8)}},
		"a reader before such a downgrade":                          {false, []*Holding{unsure(down(holds(Share{}, 1, 1, 9), 6)), holds(Shared, 2, 4, 5)}},
		"a writer after such a downgrade":                           {false, []*Holding{unsure(down(holds(Share{}, 1, 1, 9), 3)), holds(Share{}, 2, 4, 8)}},
		"a downgrade that was asked for after the loss":             {true, []*Holding{unsure(down(lost(holds(Share{}, 1, 1, 3)), 6)), holds(Share{}, 2, 5, 8)}},
		"a downgrade that was carried out after the loss":           {false, []*Holding{down(lost(holds(Share{}, 1, 1, 3)), 6), holds(Share{}, 2, 5, 8)}},
		"a permit passed on behind which others came":               {true, []*Holding{by("P", holds(two, 1, 1, 3)), holds(Shared, 4, 2, 9), holds(Shared, 5, 2, 9), by("P", holds(two, 2, 4, 9))}},
		"a permit granted behind too many":                          {false, []*Holding{by("P", holds(two, 1, 1, 3)), holds(Shared, 4, 2, 9), holds(Shared, 5, 2, 9), by("P", holds(two, 6, 4, 9))}},
		"permits that waited when readers came":                     {true, []*Holding{holds(two, 1, 1, 3), holds(Shared, 4, 2, 9), holds(Shared, 5, 2, 9), called(holds(two, 6, 4, 9), 1)}},
		"such permits with a token of when they came":               {true, []*Holding{holds(two, 1, 1, 3), holds(Shared, 4, 2, 9), holds(Shared, 5, 2, 9), called(holds(two, 2, 4, 9), 1)}},
		"all permits, which waited when a reader came":              {true, []*Holding{holds(three, 1, 1, 3), holds(Shared, 4, 2, 9), called(holds(three, 2, 4, 9), 1)}},
		"too many permits, which waited when a reader came":         {false, []*Holding{holds(one, 1, 1, 3), holds(Shared, 3, 2, 9), holds(one, 4, 2, 9), called(holds(three, 5, 4, 9), 1)}},
		"a name passed on under a reader":                           {false, []*Holding{by("P", holds(Share{}, 1, 1, 3)), holds(Shared, 4, 4, 9), by("P", holds(Share{}, 2, 5, 6))}},
		"a writer after a downgrade":                                {false, []*Holding{down(holds(Share{}, 1, 1, 9), 3), holds(Share{}, 2, 4, 8)}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{End: 10 * ms, Holdings: c.holdings}
			v, bad := judge(t, h, "")
			if v.Legal != c.legal {
				t.Errorf("porcupine says legal: %v, want %v", v.Legal, c.legal)
			}
			if !ofOrder[name] && (len(bad) == 0) != c.legal {
				t.Errorf("the sweep says %v, want legal: %v", bad, c.legal)
			}
		})
	}
}

// ofOrder are those that only porcupine can refuse: who holds together may do so, but not in the order in which they came.
var ofOrder = map[string]bool{"a permit granted behind too many": true, "a downgrade that was carried out after the loss": true}

// What a broken lock would show in a long history is found in it.
func TestBrokenKindsAreRefused(t *testing.T) {
	for name, mutate := range map[string]func(a, b *Holding){
		"both at once": func(a, b *Holding) {
			a.Alive = b.Grant + ms/2
			a.Release, a.Released = a.Alive, a.Alive+1
			b.Alive = b.Grant + ms
			b.Release, b.Released = b.Alive, b.Alive+1
		},
		"no greater a token": func(a, b *Holding) {
			b.Call = max(b.Call, a.Grant+1)
			b.Grant = max(b.Grant, b.Call)
			b.Token = a.Token
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			for seed := range uint64(200) {
				h := mixed(rand.New(rand.NewPCG(seed, 3)), 30, false)
				i := int(seed) % 28
				a, b := h.Holdings[i], h.Holdings[i+1]
				if !b.excludes(a.Share) || a.Downed != 0 || b.Downed != 0 {
					continue
				}
				found++
				mutate(a, b)
				v, bad := judge(t, h, "")
				if v.Legal || len(bad) == 0 {
					t.Errorf("seed %d: porcupine says legal: %v, the sweep %v: %v and %v", seed, v.Legal, bad, a, b)
				}
			}
			if found < 10 {
				t.Errorf("only %d histories were changed", found)
			}
		})
	}
}

// So does one of a name that many clients want at once.
func TestTwoThousandHoldingsOfAllKinds(t *testing.T) {
	h := mixed(rand.New(rand.NewPCG(5, 0)), 2_000, false)
	for i, l := range h.Holdings { // each was asked for when the fortieth before it was
		l.Call = h.Holdings[max(0, i-40)].Call
	}
	start := time.Now()
	if v, bad := judge(t, h, ""); !v.Legal || len(bad) > 0 {
		t.Fatalf("porcupine says legal: %v; the sweep: %v", v.Legal, bad)
	}
	t.Logf("legal after %v", time.Since(start).Round(time.Millisecond))
}
