package history

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict is what Check found.
type Verdict struct {
	Legal bool
	// Unsure: there was no time to decide.
	Unsure bool
	// Picture is the path of an HTML page that shows the history, if it is not legal and
	// a folder was given.
	Picture string
}

// What a claim does to its name.
type act int

const (
	acquires act = iota
	shares       // a downgrade
	ends         // of a holding
)

// The operations of the specification, beside which there is nothing.
type input struct {
	act
	name  string
	id    int // of the holding, from 1
	token int64
	share Share
	place bool // it has the place of a holding that was passed on to it
	maybe bool // a downgrade that need not have taken effect
	who   string
	how   string // in which way the holding ended
	// when the acquisition was called, and when it had returned
	called, granted int64
}

// holder is one that holds a name, and greatest the greatest token that one with this share has had.
type (
	holder struct {
		id            int
		weight, limit int32
		granted       int64
	}
	greatest struct {
		share Share
		token int64
	}
)

// state is that of one name.
type state struct {
	holders []holder
	tokens  []greatest // one for each share that there has been
}

func (st state) equal(o state) bool {
	return slices.Equal(st.holders, o.holders) && slices.Equal(st.tokens, o.tokens)
}

// acquire returns the state with one holder more, if the rule allows that. Its token, if there are tokens, is greater than those
// of all before that can never hold the name together with it.
func (st state) acquire(op input, fenced bool) (bool, state) {
	if !st.room(op) {
		return false, st
	}
	known := -1
	for i, g := range st.tokens {
		if fenced && op.share.apart(g.share) && op.token <= g.token {
			return false, st
		}
		if g.share == op.share {
			known = i
		}
	}
	next := state{append(slices.Clone(st.holders), holder{op.id, op.share.weight(), op.share.limit(), op.granted}), slices.Clone(st.tokens)}
	slices.SortFunc(next.holders, func(a, b holder) int { return cmp.Compare(a.id, b.id) })
	switch {
	case known < 0:
		next.tokens = append(next.tokens, greatest{op.share, op.token})
		slices.SortFunc(next.tokens, func(a, b greatest) int {
			return cmp.Or(cmp.Compare(a.share.Weight, b.share.Weight), cmp.Compare(a.share.Limit, b.share.Limit))
		})
	case next.tokens[known].token < op.token:
		next.tokens[known].token = op.token
	}
	return true, next
}

// room reports whether a claim may hold the name beside those who do: its weight and those of all ahead of it are no more than its
// limit. Who held the name before it was asked for is ahead of it, unless its place was passed on to it. Others may be behind: a
// reader is granted the name at once though permits wait. Then there has to be an order in which all of them have room.
func (st state) room(op input) bool {
	ahead := int64(0)
	weights, limits := []int32{op.share.weight()}, []int32{op.share.limit()}
	for _, h := range st.holders {
		if h.granted < op.called && !op.place {
			ahead += int64(h.weight)
		}
		weights, limits = append(weights, h.weight), append(limits, h.limit)
	}
	return op.share.fits(ahead) && feasible(weights, limits)
}

// change returns the state after a holder ends, or becomes one that shares.
func (st state) change(op input) (bool, state) {
	i := slices.IndexFunc(st.holders, func(h holder) bool { return h.id == op.id })
	if i < 0 {
		return op.maybe, st
	}
	next := state{slices.Clone(st.holders), st.tokens}
	if op.act == shares {
		next.holders[i].weight, next.holders[i].limit = Shared.weight(), Shared.limit()
	} else {
		next.holders = slices.Delete(next.holders, i, i+1)
	}
	return true, next
}

// model is the specification: a name with the one rule, and tokens. An acquisition that failed may or may not have held the
// name for a moment, which constrains nobody, so it is no operation. What a holding's end is, and when it can be at the earliest,
// is said in endOf. Locks without tokens are held to the rule alone.
func model(fenced bool) porcupine.Model {
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			names := make(map[string][]porcupine.Operation)
			for _, op := range ops {
				name := op.Input.(input).name
				names[name] = append(names[name], op)
			}
			var parts [][]porcupine.Operation
			for _, part := range names {
				parts = append(parts, part)
			}
			return parts
		},
		Init:  func() any { return state{} },
		Equal: func(a, b any) bool { return a.(state).equal(b.(state)) },
		Step: func(s, in, _ any) (bool, any) {
			st, op := s.(state), in.(input)
			if op.act == acquires {
				return pair(st.acquire(op, fenced))
			}
			return pair(st.change(op))
		},
		DescribeOperation: func(in, _ any) string {
			op := in.(input)
			switch op.act {
			case acquires:
				return fmt.Sprintf("%s: acquire%s, token %d", op.who, op.share.suffix(), op.token)
			case shares:
				return fmt.Sprintf("%s: downgrade, token %d", op.who, op.token)
			}
			return fmt.Sprintf("%s: %s, token %d", op.who, op.how, op.token)
		},
		DescribeState: func(s any) string {
			st := s.(state)
			if len(st.holders) == 0 {
				return fmt.Sprintf("free, greatest tokens %v", st.tokens)
			}
			return fmt.Sprintf("%d hold, greatest tokens %v", len(st.holders), st.tokens)
		},
	}
}

func pair(ok bool, st state) (bool, any) { return ok, st }

// endOf returns when and how a holding ended for the specification: at some moment
// between from and to. ok is false if it had not ended when the run did.
//
// The earliest moment is the last at which the holder was proven to hold; for one
// that never looked, or that a fault destroyed, it may lie before.
func (h *History) endOf(l *Holding, slack time.Duration) (from, to int64, how string, ok bool) {
	from = l.Call
	if l.Alive != 0 {
		from = max(l.Grant, l.Alive)
	}
	switch {
	case l.Lost != 0:
		to, how = l.Lost, "lost"
	case l.Freed:
		from, to, how = l.Release, l.Released, "release"
	case l.Released != 0:
		to, how = l.Released+int64(slack), "release unknown"
	case l.Died != 0:
		to, how = l.Died+int64(slack), "died"
	case l.Release != 0:
		to, how = l.Release+int64(slack), "release never returned"
	default:
		return 0, 0, "", false
	}
	if at, destroyed := h.Destroyed(l); destroyed && at < from {
		from, how = at, how+", destroyed before"
	}
	return from, max(from, to), how, true
}

// Check decides whether the history is one that a lock with tokens can have, within
// about the time given for each name. slack is how long after a release with no answer,
// or a death, the end of the holding may be; the TTL and a little. If the history is not
// legal a picture of it is left in the folder, if that is not "".
func (h *History) Check(slack, within time.Duration, folder string) (Verdict, error) {
	m := model(h.fenced())
	v := Verdict{Legal: true}
	likely := h.operations(slack, true)
	for name, ops := range h.operations(slack, false) {
		if porcupine.CheckOperationsTimeout(m, likely[name], within) == porcupine.Ok {
			continue
		}
		switch porcupine.CheckOperationsTimeout(m, ops, within) {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			v.Unsure = true
			continue
		}
		v.Legal = false
		if folder == "" || v.Picture != "" {
			continue
		}
		_, info := porcupine.CheckOperationsVerbose(m, ops, within) // takes more time and memory
		f, err := os.CreateTemp(folder, "history-"+clean(name)+"-*.html")
		if err != nil {
			return v, fmt.Errorf("draw history: %w", err)
		}
		v.Picture = f.Name()
		if err := porcupine.Visualize(m, info, f); err != nil {
			return v, fmt.Errorf("draw history: %w", err)
		}
		if err := f.Close(); err != nil {
			return v, fmt.Errorf("draw history: %w", err)
		}
	}
	return v, nil
}

// operations returns what happened to each name, in the terms of the model.
// With likely, those of one name are granted in the order of their tokens, whether or not they exclude one another: an order
// for these is one for all, and found soon.
func (h *History) operations(slack time.Duration, likely bool) map[string][]porcupine.Operation {
	names := make(map[string][]porcupine.Operation)
	lanes := make(map[string]int) // one row of the picture for each process
	lane := func(proc string) int {
		n, ok := lanes[proc]
		if !ok {
			n = len(lanes)
			lanes[proc] = n
		}
		return n
	}
	add := func(proc string, in input, from, to int64) {
		names[in.name] = append(names[in.name], porcupine.Operation{ClientId: lane(proc), Input: in, Call: from, Return: to})
	}
	end := h.End + int64(slack) + 1
	spans := make(map[string][]*span)
	for i, l := range h.Holdings {
		from, to, how, ok := h.endOf(l, slack)
		if !ok {
			from, to, how = l.Proven(), end, "still held at the end"
			if at, destroyed := h.Destroyed(l); destroyed {
				from = min(from, at)
			}
		}
		spans[l.Name] = append(spans[l.Name], &span{l: l, id: i + 1, call: l.Call, grant: l.Grant, end: from, ended: to, how: how})
	}
	byName := h.byName()
	for name, all := range spans {
		passed := passedOn(byName[name])
		if h.fenced() {
			narrow(all)
			if likely {
				inOrder(all)
			}
		}
		for _, s := range all {
			in := input{
				act: acquires, id: s.id, name: name, token: s.l.Token, share: s.l.Share, place: passed[s.l], who: s.l.Proc,
				called: s.l.Call, granted: s.l.Grant,
			}
			add(s.l.Proc, in, s.call, s.grant)
			// One that began after the end, and was refused, changed nothing.
			if void := s.l.Downs > s.ended && s.l.Downed == 0; s.l.Downs != 0 && !void {
				done := s.l.Downed
				if done == 0 { // it may have taken effect at any time, or never, which is the same as at the end
					done = s.ended
				}
				// A fault takes a lock from one node after the other. Until it is over, nodes that had not yet granted the lock may make
				// a majority with those where the fault has still to come; between two majorities others may have held the name.
				in.act, in.maybe = shares, s.l.Downed == 0 || h.destroyedDuring(s.l, s.l.Downs)
				add(s.l.Proc, in, s.l.Downs, max(s.l.Downs, done))
			}
			in.act, in.maybe, in.how = ends, false, s.how
			add(s.l.Proc+" ends", in, s.end, s.ended)
		}
	}
	for _, ops := range names {
		sort.SliceStable(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	}
	return names
}

// span is when a holding can have begun, between call and grant, and ended, between end and ended.
type span struct {
	l           *Holding
	id          int
	call, grant int64
	end, ended  int64
	how         string
}

// inOrder leaves holdings, which are in the order of their tokens, no other order to begin in, where that is possible.
func inOrder(all []*span) {
	for i := 1; i < len(all); i++ {
		if from := all[i-1].call; from <= all[i].grant {
			all[i].call = max(all[i].call, from)
		}
	}
	for i := len(all) - 1; i > 0; i-- {
		if by := all[i].grant; by >= all[i-1].call {
			all[i-1].grant = min(all[i-1].grant, by)
		}
	}
}

// narrow cuts off what the tokens rule out. A holding begins after all with lower tokens that can never hold the name together with
// it have ended, or shared the name. So it leaves every order that the specification allows, and porcupine need not try the
// others, of which there are very many where many wait at once. What is impossible is left as it is, to be refused.
func narrow(all []*span) {
	slices.SortStableFunc(all, func(a, b *span) int { return cmp.Compare(a.l.Token, b.l.Token) })
	latest := make(map[Share]int64) // of the earliest moments at which holdings with lower tokens have ended
	for _, s := range all {
		for share, from := range latest {
			if s.l.apart(share) && from <= s.l.Grant {
				s.call = max(s.call, from)
			}
		}
		if s.l.Downs != 0 {
			latest[s.l.Share] = max(latest[s.l.Share], min(s.l.Downs, s.end))
			latest[Shared] = max(latest[Shared], s.end)
			continue
		}
		latest[s.l.Share] = max(latest[s.l.Share], s.end)
	}
	earliest := make(map[Share]int64) // of the latest moments at which holdings with greater tokens have begun
	for _, s := range slices.Backward(all) {
		share := s.l.Share
		if s.l.Downs != 0 {
			share = Shared
		}
		for later, by := range earliest {
			if later.apart(share) && by >= s.end {
				s.ended = min(s.ended, by)
			}
		}
		if by, ok := earliest[s.l.Share]; !ok || s.l.Grant < by {
			earliest[s.l.Share] = s.l.Grant
		}
	}
}

func (h *History) fenced() bool {
	for _, l := range h.Holdings {
		if l.Token != 0 {
			return true
		}
	}
	return false
}

func clean(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}
