// Package underway counts what is under way: requests without an answer, goroutines in the
// background.
package underway

import "sync"

// Group counts. The zero value is ready. Unlike with a sync.WaitGroup something may begin
// while somebody waits for the last to end.
type Group struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // for those who wait
}

// Begin counts one more.
func (g *Group) Begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
}

// End counts one less.
func (g *Group) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.none != nil {
		close(g.none)
		g.none = nil
	}
}

// Go calls f in a goroutine that counts.
func (g *Group) Go(f func()) {
	g.Begin()
	go func() {
		defer g.End()
		f()
	}()
}

// None returns a channel that is closed at the first moment from now on at which nothing is
// under way.
func (g *Group) None() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	none := g.none
	if none == nil {
		none = make(chan struct{})
		if g.n == 0 {
			close(none)
		} else {
			g.none = none
		}
	}
	return none
}
