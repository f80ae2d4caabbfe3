package conformance

import (
	"sync"
	"time"
)

// lag measures all the while by how much this machine is late in running a
// goroutine whose time has come. A limit on time is only fair with that added.
type lag struct {
	mu      sync.Mutex
	due     time.Time
	samples []lateness // of the last minute or so
}

type lateness struct {
	at time.Time
	by time.Duration
}

const (
	lagStep  = 2 * time.Millisecond
	lagTrack = 30000
)

func newLag() *lag { return &lag{} }

func (g *lag) start() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	g.mu.Lock()
	g.due = time.Now().Add(lagStep)
	g.mu.Unlock()
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(lagStep):
			}
			// A second goroutine has to be woken as well, as in most calls.
			woken := make(chan struct{})
			go close(woken)
			<-woken
			g.sample()
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

func (g *lag) sample() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if by := now.Sub(g.due); by > lagStep {
		g.samples = append(g.samples, lateness{now, by})
		if len(g.samples) > lagTrack {
			g.samples = append(g.samples[:0], g.samples[lagTrack/2:]...)
		}
	}
	g.due = now.Add(lagStep)
}

// since is the greatest delay seen since t, also that of a goroutine that has not
// run yet.
func (g *lag) since(t time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	worst := max(time.Since(g.due), 0)
	for i := len(g.samples) - 1; i >= 0 && g.samples[i].at.After(t); i-- {
		worst = max(worst, g.samples[i].by)
	}
	return worst
}

const (
	lateStart = 50 * time.Millisecond // a machine that is so late should not be given more to do, or be judged by
	calmPause = 100 * time.Millisecond
	calmTries = 20
)

// calm waits for a while, if this machine is late, until it is not.
func (g *lag) calm() {
	for try := 0; try < calmTries && g.since(time.Now().Add(-10*calmPause)) > lateStart; try++ {
		time.Sleep(calmPause)
	}
}

// slack is what has to be added to a limit for calls made since t.
func (g *lag) slack(t time.Time) time.Duration {
	return 3*g.since(t) + 20*time.Millisecond
}
