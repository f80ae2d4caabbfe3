package redis

import "sync"

// group counts goroutines. Unlike with a sync.WaitGroup one may begin while somebody
// waits for the others to end: a Locker that is closed in a hurry still tries to
// release what it held.
type group struct {
	mu      sync.Mutex
	running int
	waiting bool
	ended   chan struct{}
}

func newGroup() *group { return &group{ended: make(chan struct{})} }

func (g *group) run(f func()) {
	g.mu.Lock()
	g.running++
	g.mu.Unlock()
	go func() {
		defer g.done()
		f()
	}()
}

func (g *group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.look()
}

// wait returns a channel that is closed once no goroutine runs.
func (g *group) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = true
	g.look()
	return g.ended
}

func (g *group) look() {
	if !g.waiting || g.running > 0 {
		return
	}
	select {
	case <-g.ended:
	default:
		close(g.ended)
	}
}
