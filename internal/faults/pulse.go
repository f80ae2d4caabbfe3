package faults

import (
	"sync"
	"time"
)

// pulse notes when this process did not run, because it was stopped or the machine had
// other things to do.
var pulse = &pauses{}

type pauses struct {
	once sync.Once
	mu   sync.Mutex
	gaps []gap
}

type gap struct {
	from, to time.Time
}

// pulseBeat is how often the pulse beats; what is missed by less is no pause.
const pulseBeat = 50 * time.Millisecond

func (p *pauses) start() {
	p.once.Do(func() {
		go func() {
			last := time.Now()
			for range time.Tick(pulseBeat) {
				now := time.Now()
				if now.Sub(last) > 3*pulseBeat {
					p.mu.Lock()
					p.gaps = append(p.gaps, gap{last, now})
					p.mu.Unlock()
				}
				last = now
			}
		}()
	})
}

// pausedSince returns how long this process did not run after t.
func (p *pauses) pausedSince(t time.Time) time.Duration {
	time.Sleep(2 * pulseBeat) // the pulse that ends a pause may come after this call
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum time.Duration
	for _, g := range p.gaps {
		if g.to.After(t) {
			sum += g.to.Sub(later(g.from, t))
		}
	}
	return sum
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
