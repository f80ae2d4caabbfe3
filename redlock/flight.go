package redlock

import "sync"

// flight counts the requests that are under way. Unlike with a WaitGroup, one may begin
// while Close waits for the last of those before it.
type flight struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when there is none any more, if somebody waits
}

func (f *flight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.none != nil {
		close(f.none)
		f.none = nil
	}
}

// wait waits until there is none.
func (f *flight) wait() {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return
	}
	if f.none == nil {
		f.none = make(chan struct{})
	}
	none := f.none
	f.mu.Unlock()
	<-none
}
