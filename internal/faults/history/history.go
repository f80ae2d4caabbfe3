package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
)

// Holding is one acquisition that succeeded, as its user saw it. Times that are 0 did
// not come.
type Holding struct {
	Proc  string
	Op    int
	Name  string
	Token int64
	Share

	Call     int64 // Acquire was called
	Grant    int64 // Acquire had returned
	Downs    int64 // Downgrade was called
	Downed   int64 // it had returned, without an error
	Alive    int64 // the last moment for which a look has proven that the context was alive
	Lost     int64 // the holder was told of the loss
	Release  int64 // Release was called
	Released int64 // Release had returned
	Freed    bool  // with no error: the server said that the name was ours till then
	Died     int64 // the process was killed
}

// Proven returns how far the holding is proven to reach: its Grant if no look ever
// found the context alive.
func (h *Holding) Proven() int64 {
	if h.Freed && h.Lost == 0 {
		return max(h.Grant, h.Release)
	}
	return max(h.Grant, h.Alive)
}

// proven reports whether there was any moment for which it is proven.
func (h *Holding) proven() bool { return h.Alive != 0 || h.Freed && h.Lost == 0 }

func (h *Holding) String() string {
	return fmt.Sprintf("%q%s token %d of %s#%d", h.Name, h.suffix(), h.Token, h.Proc, h.Op)
}

// History is what happened in one run.
type History struct {
	Holdings []*Holding // by Grant
	Failed   int        // acquisitions that failed, or of which no end is known
	Faults   []Event    // by time
	End      int64      // the time of the last event
}

// Read puts together the files of one run that match the pattern.
func Read(pattern string) (*History, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	var events []Event
	for _, file := range files {
		if events, err = readFile(events, file); err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
	}
	return Of(events)
}

func readFile(events []Event, path string) ([]Event, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// Of puts together the events of one run. Events of one process are in their order
// already. A process that is not said to have died has recorded all that happened to
// it: a holding of which no end is recorded lasted until the end of the run.
func Of(events []Event) (*History, error) {
	type key struct {
		proc string
		op   int
	}
	h := &History{}
	called := make(map[key]Event)
	holdings := make(map[key]*Holding)
	died := make(map[string]int64)
	for _, e := range events {
		h.End = max(h.End, e.T, e.Until)
		k := key{e.Proc, e.Op}
		if e.Kind == Called {
			if _, before := called[k]; before {
				return nil, fmt.Errorf("history: %s#%d is called twice", e.Proc, e.Op)
			}
			called[k] = e
			continue
		}
		switch e.Kind {
		case Fault:
			h.Faults = append(h.Faults, e)
			continue
		case Died:
			died[e.Proc] = e.T
			continue
		case Granted, Refused:
			call, ok := called[k]
			if !ok {
				return nil, fmt.Errorf("history: %s#%d is %s but was never called", e.Proc, e.Op, e.Kind)
			}
			if e.Kind == Granted {
				delete(called, k)
				holdings[k] = &Holding{Proc: e.Proc, Op: e.Op, Name: call.Name, Share: call.Share, Token: e.Token, Call: call.T, Grant: e.T}
			}
			continue
		}
		l := holdings[k]
		if l == nil {
			return nil, fmt.Errorf("history: %s#%d is %s but was never granted", e.Proc, e.Op, e.Kind)
		}
		switch e.Kind {
		case Alive:
			l.Alive = max(l.Alive, e.T)
		case Lost:
			l.Lost, l.Alive = e.T, max(l.Alive, e.Alive)
		case Shares:
			l.Downs = e.T
		case HasShared:
			l.Downed = e.T
		case Release:
			l.Release, l.Alive = e.T, max(l.Alive, e.Alive)
		case Released:
			l.Released, l.Freed = e.T, e.Err == ""
		default:
			return nil, fmt.Errorf("history: unknown kind %q", e.Kind)
		}
	}
	for k, l := range holdings {
		l.Died = died[k.proc]
		if l.Died == 0 && l.Lost == 0 && l.Release == 0 {
			l.Alive = h.End // nobody has told its holder anything else
		}
		h.Holdings = append(h.Holdings, l)
	}
	h.Failed = len(called)
	sort.Slice(h.Holdings, func(i, j int) bool { return h.Holdings[i].Grant < h.Holdings[j].Grant })
	sort.SliceStable(h.Faults, func(i, j int) bool { return h.Faults[i].T < h.Faults[j].T })
	return h, nil
}

// byName divides the holdings, each part still by Grant.
func (h *History) byName() map[string][]*Holding {
	names := make(map[string][]*Holding)
	for _, l := range h.Holdings {
		names[l.Name] = append(names[l.Name], l)
	}
	return names
}

// Destroyed returns the first moment at which a fault may have taken l away at the
// server, if there is one before its end.
func (h *History) Destroyed(l *Holding) (at int64, ok bool) {
	for _, f := range h.Faults {
		if f.mayHaveDestroyed(l) {
			return max(f.T, l.Call), true
		}
	}
	return 0, false
}

// destroyedDuring reports whether a fault that may have taken l away at the server was not over at t.
func (h *History) destroyedDuring(l *Holding, t int64) bool {
	return slices.ContainsFunc(h.Faults, func(f Event) bool { return f.mayHaveDestroyed(l) && f.T <= t && t <= f.Until })
}

func (f Event) mayHaveDestroyed(l *Holding) bool {
	return f.Destroys && (f.Name == "" || f.Name == l.Name) && (f.Token == 0 || f.Token == l.Token) && f.T <= l.Proven() && max(f.T, f.Until) >= l.Call
}
