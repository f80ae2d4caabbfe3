package redlock

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// The model is the token protocol and nothing else: three nodes, two or three claims,
// every order of events. A step is one of
//
//   - a node carries out a request, however long ago it was sent and whatever has
//     become of its sender, and its reply arrives or is lost;
//   - a claim begins, with any guess; goes on to the second round; holds; hands over;
//   - a node restarts without its data.
//
// What needs no step of its own: a claim that has crashed is one that takes no step any
// more; a late reply is one whose receiver takes its time; a request that finds the
// lock taken, or no longer its own, is one that is never carried out, because it
// changes nothing and its reply is of no use. And a lock may disappear from a node at any
// time, released, expired too early or deleted by hand: so every bid may find it free.
const modelNodes = 3

type modelRules struct {
	claims   int
	guesses  uint8 // 1 to this
	restarts uint8
	handOver bool

	// The ways to do it wrong.
	oneRound      bool // the token is the greatest answer of the first round
	unconditional bool // a token is written also where the clock is not below it
	counter       bool // a clock that begins at zero after a restart
	trustGuess    bool // the guess is a token without being compared
}

// modelNode is a node and what it has been told by each claim.
type modelNode struct {
	holder uint8 // claim + 1
	clock  uint8
	told   [3]uint8
}

const (
	bidDone     = 1 << iota // the node has carried out the bid
	bidYes                  // and its yes has arrived
	bidOK                   // with the token written
	confirmDone             // the same for the second round
	confirmOK
	passDone // and for the hand-over
	passOK
)

type modelClaim struct {
	phase  uint8
	guess  uint8
	high   uint8 // greatest clock that was answered
	token  uint8 // of the second round
	floor  uint8 // greatest token whose holder was successful before this claim began
	held   uint8 // the token with which it was successful
	heir   uint8 // to whom it hands over, claim + 1
	legacy uint8 // with that token
}

const (
	idle = iota
	bidding
	confirming
	holding
)

type modelState struct {
	nodes    [modelNodes]modelNode
	claims   [3]modelClaim
	restarts uint8
	chosen   uint8 // greatest token that anybody has thought of
	best     uint8 // greatest token that was successful
}

// rank orders claims by what has become of them.
func (c modelClaim) rank() uint64 {
	heir := uint64(0)
	if c.heir > 0 {
		heir = 1
	}
	return uint64(c.phase)<<56 | uint64(c.guess)<<48 | uint64(c.high)<<40 | uint64(c.token)<<32 |
		uint64(c.floor)<<24 | uint64(c.held)<<16 | uint64(c.legacy)<<8 | heir
}

// renamed gives the claims that have begun their names in the order of rank.
func (s modelState) renamed() modelState {
	begun := 0
	order := [3]int{0, 1, 2}
	for begun < len(s.claims) && s.claims[begun].phase != idle {
		for i := begun; i > 0 && s.claims[order[i]].rank() < s.claims[order[i-1]].rank(); i-- {
			order[i], order[i-1] = order[i-1], order[i]
		}
		begun++
	}
	if order == [3]int{0, 1, 2} {
		return s
	}
	t := s
	var now [4]uint8 // the new name + 1 of each old name + 1
	for to, from := range order {
		now[from+1] = uint8(to + 1)
		t.claims[to] = s.claims[from]
	}
	for k := range t.claims {
		t.claims[k].heir = now[t.claims[k].heir]
	}
	for i := range t.nodes {
		t.nodes[i].holder = now[s.nodes[i].holder]
		for to, from := range order {
			t.nodes[i].told[to] = s.nodes[i].told[from]
		}
	}
	return t
}

// canonical makes states equal that differ only in the names of the nodes and of the
// claims, or in what cannot matter any more.
func (s modelState) canonical(r modelRules) modelState {
	begun := true
	for k := range r.claims {
		c := &s.claims[k]
		begun = begun && c.phase != idle
		forget := uint8(0)
		switch c.phase {
		case confirming:
			forget, c.high = bidYes|bidOK, 0
		case holding:
			forget, c.high, c.floor = bidYes|bidOK|confirmOK, 0, 0
		}
		for i := range s.nodes {
			s.nodes[i].told[k] &^= forget
		}
	}
	if begun {
		s.best = 0
	}
	if s.restarts == r.restarts {
		s.chosen = 0
	}
	s = s.renamed()
	slices.SortFunc(s.nodes[:], func(a, b modelNode) int {
		for _, d := range []int{int(a.holder) - int(b.holder), int(a.clock) - int(b.clock),
			int(a.told[0]) - int(b.told[0]), int(a.told[1]) - int(b.told[1]), int(a.told[2]) - int(b.told[2])} {
			if d != 0 {
				return d
			}
		}
		return 0
	})
	return s
}

func (s *modelState) count(claim int, bit uint8) (n int) {
	for _, node := range s.nodes {
		if node.told[claim]&bit != 0 {
			n++
		}
	}
	return n
}

// success makes claim k a holder and says what is wrong with that.
func (s *modelState) success(k int, token uint8) string {
	c := &s.claims[k]
	switch {
	case token <= c.floor:
		return fmt.Sprintf("token %d after %d", token, c.floor)
	}
	for _, other := range s.claims {
		if other.held == token {
			return fmt.Sprintf("token %d is given twice", token)
		}
	}
	c.phase, c.held = holding, token
	s.best = max(s.best, token)
	return ""
}

// write is the node's part of writing a token.
func (r modelRules) write(n *modelNode, token uint8) bool {
	if n.clock >= token && !r.unconditional {
		return false
	}
	n.clock = token
	return true
}

// next calls found with every state that can follow s. It returns what is wrong
// with one of them, if anything is.
func (r modelRules) next(s modelState, found func(modelState)) (wrong string) {
	try := func(change func(t *modelState) string) {
		t := s
		if w := change(&t); w != "" {
			wrong = w
			return
		}
		found(t.canonical(r))
	}
	for k := range r.claims {
		c := s.claims[k]
		me := uint8(k + 1)
		if c.phase == idle {
			if k > 0 && s.claims[k-1].phase == idle {
				continue // the claims are alike: let them begin in order
			}
			for g := uint8(1); g <= r.guesses; g++ {
				try(func(t *modelState) string {
					t.claims[k] = modelClaim{phase: bidding, guess: g, floor: t.best}
					t.chosen = max(t.chosen, g)
					return ""
				})
			}
			continue
		}
		for i := range s.nodes {
			told := s.nodes[i].told[k]
			if told&bidDone == 0 {
				for _, lost := range []bool{false, true} {
					try(func(t *modelState) string { r.bid(t, k, i, lost); return "" })
				}
			}
			if c.token > 0 && told&confirmDone == 0 && s.nodes[i].holder == me {
				for _, lost := range []bool{false, true} {
					try(func(t *modelState) string {
						n := &t.nodes[i]
						n.told[k] |= confirmDone
						if r.write(n, c.token) && !lost {
							n.told[k] |= confirmOK
						}
						return ""
					})
				}
			}
			if c.heir > 0 && told&passDone == 0 && s.nodes[i].holder == me {
				for _, lost := range []bool{false, true} {
					try(func(t *modelState) string {
						n := &t.nodes[i]
						n.told[k] |= passDone
						n.holder = c.heir
						if r.write(n, c.legacy) && !lost {
							n.told[k] |= passOK
						}
						return ""
					})
				}
			}
		}
		const majority = modelNodes/2 + 1
		switch {
		case c.phase == bidding && r.oneRound:
			if s.count(k, bidYes) >= majority {
				try(func(t *modelState) string { return t.success(k, c.high) })
			}
		case c.phase == bidding:
			if s.count(k, bidOK) >= majority {
				try(func(t *modelState) string { return t.success(k, c.guess) })
			}
			if s.count(k, bidYes) >= majority {
				try(func(t *modelState) string {
					token := max(c.high, c.guess) + 1
					t.claims[k].phase, t.claims[k].token = confirming, token
					t.chosen = max(t.chosen, token)
					return ""
				})
			}
		case c.phase == confirming:
			if s.count(k, confirmOK) >= majority {
				try(func(t *modelState) string { return t.success(k, c.token) })
			}
		case c.phase == holding && r.handOver:
			for w := range r.claims {
				if c.heir == 0 && s.claims[w].phase == bidding {
					try(func(t *modelState) string {
						t.claims[k].heir, t.claims[k].legacy = uint8(w+1), c.held+1
						t.chosen = max(t.chosen, c.held+1)
						return ""
					})
				}
			}
			if c.heir > 0 && s.count(k, passOK) >= majority && s.claims[c.heir-1].phase == bidding {
				try(func(t *modelState) string { return t.success(int(c.heir-1), c.legacy) })
			}
		}
	}
	for i, n := range s.nodes {
		if s.restarts < r.restarts && (n.holder != 0 || n.clock != 0) {
			try(func(t *modelState) string {
				t.restarts++
				t.nodes[i].holder = 0
				// The node's clock is the time, which has gone beyond every token
				// that was thought of before the restart.
				t.nodes[i].clock = t.chosen
				if r.counter {
					t.nodes[i].clock = 0
				}
				return ""
			})
		}
	}
	return wrong
}

func (r modelRules) bid(t *modelState, k, i int, lost bool) {
	n, c := &t.nodes[i], &t.claims[k]
	n.told[k] |= bidDone
	n.holder = uint8(k + 1)
	answer := n.clock
	written := false
	switch {
	case r.oneRound:
		n.clock++
		answer = n.clock
	case r.trustGuess:
		written = true
		n.clock = max(n.clock, c.guess)
	default:
		written = r.write(n, c.guess)
	}
	if lost {
		return
	}
	n.told[k] |= bidYes
	c.high = max(c.high, answer)
	if written {
		n.told[k] |= bidOK
	}
}

// explore goes through all states and returns how many there are, or what is wrong
// with the first bad one.
func (r modelRules) explore(limit int) (int, string) {
	start := modelState{}
	seen := map[modelState]struct{}{start: {}}
	stack := []modelState{start}
	for len(stack) > 0 && len(seen) < limit {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		wrong := r.next(s, func(t modelState) {
			if _, known := seen[t]; !known {
				seen[t] = struct{}{}
				stack = append(stack, t)
			}
		})
		if wrong != "" {
			return len(seen), wrong
		}
	}
	return len(seen), ""
}

// TestModel: in no order of events is a token given twice, nor is one given that is
// not above those of all holders who were there before the claim began.
func TestModel(t *testing.T) {
	const limit = 6_000_000
	for name, rules := range map[string]modelRules{
		"two claims, hand-over, a restart": {claims: 2, guesses: 2, restarts: 1, handOver: true},
		"three claims":                     {claims: 3, guesses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			n, wrong := rules.explore(limit)
			if wrong != "" {
				t.Fatal(wrong)
			}
			if n >= limit {
				t.Fatalf("not finished after %d states", n)
			}
			t.Logf("%d states in %v", n, time.Since(begin).Round(time.Millisecond))
		})
	}
}

// TestModelOfBrokenVariants: the model sees what is wrong with each shortcut.
func TestModelOfBrokenVariants(t *testing.T) {
	for name, rules := range map[string]modelRules{
		"one round only":                     {claims: 3, guesses: 1, oneRound: true},
		"unconditional write":                {claims: 2, guesses: 1, unconditional: true},
		"a counter instead of a clock":       {claims: 2, guesses: 2, restarts: 1, counter: true},
		"a guess that is not compared":       {claims: 2, guesses: 2, trustGuess: true},
		"unconditional write with hand-over": {claims: 2, guesses: 1, handOver: true, unconditional: true},
	} {
		t.Run(name, func(t *testing.T) {
			n, wrong := rules.explore(3_000_000)
			if wrong == "" {
				t.Fatalf("nothing wrong found in %d states", n)
			}
			t.Logf("after %d states: %s", n, wrong)
		})
	}
}
