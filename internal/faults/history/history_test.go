package history

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/stamp"
)

var must = locktest.Must

const (
	ms    = int64(time.Millisecond)
	slack = 100 * time.Millisecond
)

// run makes up the history of a lock that keeps its promises: each name is held by one
// after another, who come and end in every way there is.
func run(rng *rand.Rand, names, perName int) *History {
	h := &History{}
	for n := range names {
		name := string(rune('a' + n))
		token, free := rng.Int64N(100), int64(ms)
		for i := range perName {
			token += 1 + rng.Int64N(3)
			l := &Holding{Proc: string(rune('A' + rng.IntN(8))), Op: n*perName + i + 1, Name: name, Token: token}
			l.Grant = free + 1 + rng.Int64N(ms)
			l.Call = l.Grant - 1 - rng.Int64N(5*ms) // perhaps long before the one before has ended
			l.Alive = l.Grant + rng.Int64N(3*ms)
			end := l.Alive + rng.Int64N(ms)
			switch rng.IntN(6) {
			case 0:
				l.Lost = end + rng.Int64N(20*ms) // told late, or looked late
			case 1:
				l.Died = end
			case 2:
				l.Release, l.Released = end, end+10*ms
			case 3:
				l.Alive, l.Lost = 0, end // never had anything of it
			default:
				l.Release, l.Released, l.Freed = end, end+rng.Int64N(ms), true
			}
			if free = l.Proven(); l.Freed {
				free = l.Release + rng.Int64N(l.Released-l.Release+1)
			}
			h.Holdings = append(h.Holdings, l)
			h.End = max(h.End, free, l.Lost, l.Released)
		}
	}
	return h
}

func judge(t *testing.T, h *History, folder string) (Verdict, []string) {
	t.Helper()
	v, err := h.Check(slack, 5*time.Minute, folder)
	must(t, err)
	if v.Unsure {
		t.Fatal("porcupine found no answer in five minutes")
	}
	return v, h.Sweep().Bad()
}

func TestGoodHistoriesAreLegal(t *testing.T) {
	for seed := range uint64(50) {
		h := run(rand.New(rand.NewPCG(seed, 0)), 3, 60)
		if v, bad := judge(t, h, ""); !v.Legal || len(bad) > 0 {
			t.Fatalf("seed %d: porcupine says legal: %v; the sweep: %v", seed, v.Legal, bad)
		}
	}
}

// A history of the size of a campaign is decided in a time that one can wait.
func TestTenThousandHoldings(t *testing.T) {
	h := run(rand.New(rand.NewPCG(1, 0)), 5, 2000)
	start := time.Now()
	if v, bad := judge(t, h, ""); !v.Legal || len(bad) > 0 {
		t.Fatalf("porcupine says legal: %v; the sweep: %v", v.Legal, bad)
	}
	t.Logf("legal after %v", time.Since(start).Round(time.Millisecond))
	h.Holdings[5000].Token, h.Holdings[5001].Token = h.Holdings[5001].Token, h.Holdings[5000].Token
	start = time.Now()
	if v, bad := judge(t, h, ""); v.Legal || len(bad) == 0 {
		t.Fatalf("swapped tokens: porcupine says legal: %v; the sweep: %v", v.Legal, bad)
	}
	t.Logf("refuted after %v", time.Since(start).Round(time.Millisecond))
}

// mutations are what a broken lock would show. Each gets two holdings of one name, of
// which b came right after a.
var mutations = map[string]func(h *History, a, b *Holding){
	"swapped tokens":    func(_ *History, a, b *Holding) { a.Token, b.Token = b.Token, a.Token },
	"the same token":    func(_ *History, a, b *Holding) { b.Token = a.Token },
	"token starts anew": func(_ *History, a, b *Holding) { b.Token = 1 },
	"double grant": func(h *History, a, b *Holding) {
		a.Lost, a.Died, a.Alive = 0, 0, b.Grant+ms
		a.Release, a.Released, a.Freed = b.Grant+2*ms, b.Grant+3*ms, true
		b.Alive, b.Release = b.Grant+4*ms, b.Grant+5*ms
	},
	"lost signal too late": func(_ *History, a, b *Holding) {
		a.Alive, a.Lost, a.Freed = b.Grant+ms, b.Grant+2*ms, false
	},
	"dropped loss": func(h *History, a, b *Holding) {
		a.Lost, a.Release, a.Released, a.Died, a.Freed = 0, 0, 0, 0, false
		a.Alive = h.End // as Of says of one whose end is not recorded
	},
	"dead but looked after the next grant": func(_ *History, a, b *Holding) {
		a.Lost, a.Freed, a.Died, a.Alive = 0, false, b.Grant+3*ms, b.Grant+2*ms
	},
	"granted before it was free": func(_ *History, a, b *Holding) {
		a.Alive, a.Lost, a.Freed = a.Grant+3*ms, 0, true
		a.Release, a.Released = a.Alive, a.Alive+ms
		b.Call, b.Grant = a.Grant, a.Grant+ms
		b.Alive = max(b.Alive, b.Grant+ms)
	},
}

func TestBrokenLocksAreRefused(t *testing.T) {
	for name, mutate := range mutations {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(20) {
				h := run(rand.New(rand.NewPCG(seed, 1)), 2, 30)
				i := int(seed) % 28
				a, b := h.Holdings[i], h.Holdings[i+1]
				// Two that really held, so that what is wrong is only what mutate does.
				a.Alive, b.Alive = max(a.Alive, a.Grant), max(b.Alive, b.Grant)
				b.Call = max(b.Call, a.Grant+1)
				b.Grant = max(b.Grant, b.Call)
				mutate(h, a, b)
				v, bad := judge(t, h, t.TempDir())
				if v.Legal {
					t.Errorf("seed %d: porcupine accepted %v and %v", seed, a, b)
				} else if page, err := os.ReadFile(v.Picture); err != nil || !strings.Contains(string(page), "<html") {
					t.Errorf("seed %d: no picture: %v", seed, err)
				}
				if len(bad) == 0 {
					t.Errorf("seed %d: the sweep accepted %v and %v", seed, a, b)
				}
			}
		})
	}
}

// A fault that destroys a holding excuses two at once, on its name, from its time on,
// and never a token that is not greater.
func TestDestruction(t *testing.T) {
	overlap := func() *History {
		return &History{End: 20 * ms, Holdings: []*Holding{
			{Proc: "A", Op: 1, Name: "x", Token: 1, Call: 1, Grant: 2, Alive: 8 * ms, Lost: 9 * ms},
			{Proc: "B", Op: 1, Name: "x", Token: 2, Call: 5 * ms, Grant: 6 * ms, Alive: 12 * ms, Release: 12 * ms, Released: 13 * ms, Freed: true},
		}}
	}
	late := func(of Event, token int64) func(h *History) { // B was first, and its acquisition returned after A's
		return func(h *History) {
			h.Faults = []Event{of}
			h.Holdings = []*Holding{
				{Proc: "A", Op: 1, Name: "x", Token: 2, Call: 4*ms + 1, Grant: 5 * ms, Alive: 12 * ms, Release: 12 * ms, Released: 13 * ms, Freed: true},
				{Proc: "B", Op: 1, Name: "x", Token: token, Call: ms, Grant: 6 * ms, Alive: 8 * ms, Lost: 9 * ms},
			}
		}
	}
	fault := func(name string, at int64) Event {
		return Event{Kind: Fault, T: at, Name: name, Destroys: true}
	}
	only := func(token, at int64) Event {
		f := fault("x", at)
		f.Token = token
		return f
	}
	for _, c := range []struct {
		name   string
		change func(h *History)
		legal  bool
	}{
		{"no fault", func(*History) {}, false},
		{"destroyed", func(h *History) { h.Faults = []Event{fault("x", 4*ms)} }, true},
		{"all names destroyed", func(h *History) { h.Faults = []Event{fault("", 4*ms)} }, true},
		{"another name", func(h *History) { h.Faults = []Event{fault("y", 4*ms)} }, false},
		{"too late to explain it", func(h *History) { h.Faults = []Event{fault("x", 7*ms)} }, false},
		{"before it was asked for", func(h *History) { h.Faults = []Event{fault("x", 0)} }, false},
		{"a fault that destroys nothing", func(h *History) { f := fault("x", 4*ms); f.Destroys = false; h.Faults = []Event{f} }, false},
		{"the holding of that token destroyed", func(h *History) { h.Faults = []Event{only(1, 4*ms)} }, true},
		{"the holding of another token destroyed", func(h *History) { h.Faults = []Event{only(2, 4*ms)} }, false},
		{"destroyed on its way", late(fault("x", 4*ms), 1), true},
		{"destroyed on its way, after the next was granted", late(only(1, 5*ms+1), 1), false},
		{"destroyed on its way, and was second", late(only(3, 4*ms), 3), false},
		{"on its way, and nothing destroyed", late(fault("y", 4*ms), 1), false},
		{"token not greater", func(h *History) { h.Faults = []Event{fault("x", 4*ms)}; h.Holdings[1].Token = 1 }, false},
		{"token lower", func(h *History) {
			h.Faults = []Event{fault("x", 4*ms)}
			h.Holdings[0].Token, h.Holdings[1].Token = 9, 3
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := overlap()
			c.change(h)
			v, bad := judge(t, h, "")
			if v.Legal != c.legal {
				t.Errorf("porcupine says legal: %v, want %v", v.Legal, c.legal)
			}
			if (len(bad) == 0) != c.legal {
				t.Errorf("the sweep says %v, want legal: %v", bad, c.legal)
			}
			if s := h.Sweep(); c.legal && (len(s.Overlaps) != 1 || s.Overlaps[0].For != 2*time.Millisecond || s.Overlaps[0].SinceFault != 4*time.Millisecond) {
				t.Errorf("overlaps %v, want one of 2 ms, 4 ms after the fault", s.Overlaps)
			}
		})
	}
}

// Locks without tokens are held to exclusion.
func TestWithoutTokens(t *testing.T) {
	h := run(rand.New(rand.NewPCG(3, 0)), 2, 30)
	for _, l := range h.Holdings {
		l.Token = 0
	}
	if v, bad := judge(t, h, ""); !v.Legal || len(bad) > 0 {
		t.Fatalf("porcupine says legal: %v; the sweep: %v", v.Legal, bad)
	}
	a, b := h.Holdings[3], h.Holdings[4]
	a.Alive, a.Lost, a.Freed = b.Grant+2*ms, b.Grant+3*ms, false
	b.Alive = max(b.Alive, b.Grant+ms)
	if v, bad := judge(t, h, ""); v.Legal || len(bad) == 0 {
		t.Fatalf("overlap: porcupine says legal: %v; the sweep: %v", v.Legal, bad)
	}
}

// Of many tokens that are out of order those that are the same are named first.
func TestSameTokensComeFirst(t *testing.T) {
	h := run(rand.New(rand.NewPCG(4, 0)), 1, 30)
	for i, l := range h.Holdings {
		l.Token = int64(1000 - i)
	}
	h.Holdings[2].Token = h.Holdings[3].Token
	bad := h.Sweep().Bad()
	if len(bad) < 20 || !strings.Contains(bad[0], "have the same token") || strings.Contains(bad[1], "have the same token") {
		t.Errorf("the sweep: %v", bad)
	}
}

func TestRecordAndRead(t *testing.T) {
	dir := t.TempDir()
	one, err := NewRecorder(filepath.Join(dir, "one.jsonl"), "one")
	must(t, err)
	two, err := NewRecorder(filepath.Join(dir, "two.jsonl"), "two")
	must(t, err)
	op := one.NewOp()
	one.Add(Event{Kind: Called, Op: op, Name: "x\x00y"})
	one.Add(Event{Kind: Granted, Op: op, Token: 7})
	one.Add(Event{Kind: Alive, Op: op})
	two.Add(Event{Kind: Fault, Err: "cut"})
	one.Add(Event{Kind: Lost, Op: op, Alive: stamp.Now()})
	other := one.NewOp()
	one.Add(Event{Kind: Called, Op: other, Name: "z"})
	one.Add(Event{Kind: Granted, Op: other, Token: 1})
	two.Add(Event{Kind: Called, Op: two.NewOp(), Name: "z"})
	dead := two.NewOp()
	two.Add(Event{Kind: Called, Op: dead, Name: "w"})
	two.Add(Event{Kind: Granted, Op: dead, Token: 1})
	two.Add(Event{Kind: Died, Proc: "two"})
	must(t, one.Close(), two.Close())
	h, err := Read(filepath.Join(dir, "*.jsonl"))
	must(t, err)
	if len(h.Holdings) != 3 || h.Failed != 1 || len(h.Faults) != 1 {
		t.Fatalf("read %d holdings, %d failures, %d faults", len(h.Holdings), h.Failed, len(h.Faults))
	}
	x, z := h.Holdings[0], h.Holdings[1]
	if x.Name != "x\x00y" || x.Token != 7 || !(x.Call < x.Grant && x.Grant < x.Alive && x.Alive < x.Lost) {
		t.Errorf("read %+v", x)
	}
	if z.Proven() != h.End {
		t.Errorf("a holding that has no end is proven until %d, want the end of the run, %d", z.Proven(), h.End)
	}
	if w := h.Holdings[2]; w.Proc != "two" || w.Died == 0 || w.Proven() != w.Grant {
		t.Errorf("read %+v", w)
	}
}

func TestReadRefusesNonsense(t *testing.T) {
	for name, events := range map[string][]Event{
		"granted without a call": {{Kind: Granted, Op: 1}},
		"lost without a grant":   {{Kind: Called, Op: 1}, {Kind: Lost, Op: 1}},
		"called twice":           {{Kind: Called, Op: 1}, {Kind: Called, Op: 1}},
	} {
		if _, err := Of(events); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
