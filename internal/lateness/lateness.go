// Package lateness measures by how much this machine is late in running a goroutine that has something to do. A limit on
// time is only fair with that added, and a machine that is late should not be given more to do.
package lateness

import (
	"context"
	"os"
	"sync"
	"time"
)

// Meter measures all the while, from Start to Stop.
type Meter struct {
	step time.Duration
	in   *os.File // the end of a pipe that is read
	out  *os.File // the other
	quit chan struct{}
	done chan struct{}

	mu      sync.Mutex
	due     time.Time
	samples []sample
}

type sample struct {
	at time.Time
	by time.Duration
}

// track is how many samples are kept: of a minute or more.
const track = 30000

// Start returns a Meter that looks every step. What is late by less does not count. It panics if it can open no pipe.
func Start(step time.Duration) *Meter {
	in, out, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	m := &Meter{
		step: step, in: in, out: out,
		quit: make(chan struct{}), done: make(chan struct{}), due: time.Now().Add(step),
	}
	go func() {
		defer close(m.done)
		defer in.Close()
		defer out.Close()
		for {
			select {
			case <-m.quit:
				return
			case <-time.After(step):
			}
			m.pass()
			m.sample()
		}
	}()
	return m
}

// pass sends a byte through the pipe; it returns when that has arrived. In a process that has much to do, a goroutine
// that waits for a server is woken after those that wait for a timer or for another goroutine, up to twenty times as
// late: to measure those would say too little.
func (m *Meter) pass() {
	go m.out.WriteString("x")
	_, _ = m.in.Read(make([]byte, 1))
}

// Step is how often the Meter of [Share] looks. Each look wakes a processor: at 2 ms that was a twenty-fifth of a core, which tests
// did not have to spare.
const Step = 5 * time.Millisecond

var shared struct {
	sync.Mutex
	meter *Meter
	users int
}

// Share returns the one Meter of this process, which measures as long as anybody has it, and what gives it back.
func Share() (m *Meter, giveBack func()) {
	shared.Lock()
	defer shared.Unlock()
	if shared.users == 0 {
		shared.meter = Start(Step)
	}
	shared.users++
	return shared.meter, sync.OnceFunc(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.users--; shared.users == 0 {
			shared.meter.Stop()
		}
	})
}

// Stop ends the measuring.
func (m *Meter) Stop() {
	close(m.quit)
	<-m.done
}

func (m *Meter) sample() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if by := now.Sub(m.due); by > m.step {
		m.samples = append(m.samples, sample{now, by})
		if len(m.samples) > track {
			m.samples = append(m.samples[:0], m.samples[track/2:]...)
		}
	}
	m.due = now.Add(m.step)
}

// Worst returns the greatest delay since t, also that of a goroutine that has not run yet.
func (m *Meter) Worst(t time.Time) time.Duration {
	worst := time.Duration(0)
	m.each(t, func(d sample) { worst = max(worst, d.by) })
	return worst
}

// Sum returns for how long, since t, a goroutine whose time had come did not run.
func (m *Meter) Sum(t time.Time) time.Duration {
	sum := time.Duration(0)
	m.each(t, func(d sample) { sum += min(d.by, d.at.Sub(t)) })
	return sum
}

// each calls f with every delay that ended after t.
func (m *Meter) each(t time.Time, f func(sample)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	f(sample{now, max(now.Sub(m.due), 0)})
	for i := len(m.samples) - 1; i >= 0 && m.samples[i].at.After(t); i-- {
		f(m.samples[i])
	}
}

// Slack is what has to be added to a limit for calls made since t.
func (m *Meter) Slack(t time.Time) time.Duration {
	return 3*m.Worst(t) + m.Sum(t) + 20*time.Millisecond
}

// Receive receives from c; it returns false if nothing comes in d and in what the machine is late by meanwhile, or until ctx ends.
func Receive[T any](ctx context.Context, m *Meter, c <-chan T, d time.Duration) (v T, ok bool) {
	for start, left := time.Now(), d; left > 0 && ctx.Err() == nil; left = d + m.Slack(start) - time.Since(start) {
		select {
		case v = <-c:
			return v, true
		case <-ctx.Done():
		case <-time.After(left):
		}
	}
	select {
	case v = <-c:
		return v, true
	default:
		return v, false
	}
}

// Limit is a delay with which a machine should not be given more to do, or be judged by.
const Limit = 50 * time.Millisecond

// Calm waits until this machine has not been late for a second, as long as worth says that this is worth the time: while others
// are under way, say, who may be the cause.
func (m *Meter) Calm(worth func() bool) {
	for m.Worst(time.Now().Add(-time.Second)) > Limit && worth() {
		time.Sleep(100 * time.Millisecond)
	}
}
