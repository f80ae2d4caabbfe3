package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/faults/fence"
	"github.com/seed80cd6120/locker/internal/faults/history"
)

// Load is what one process of a campaign does: several goroutines that take names at
// random, write to the protected resource and give them back.
type Load struct {
	Seed uint64
	// Names are held for a millisecond or so, Slow for up to one and a half TTL, so that
	// faults meet those who hold as well as those who wait.
	Names, Slow []string
	// Goroutines is how many take Names; one more takes Slow, if there are any.
	Goroutines int
	TTL        time.Duration
	// Shares are what half of the acquisitions of Names take; the others take all of the name, and some of these
	// share it after a while.
	Shares []history.Share
	// Fast holds Names for no time, and waits as long as it takes.
	Fast bool
}

// Tally is what has come of a Load.
type Tally struct {
	Acquired int
	Taken    int // tries that found the name taken
	Failed   int // acquisitions that ended in an error, that of their ctx as a rule
	Lost     int
	// Late are calls that returned more than a second after their ctx had ended.
	Late []string `json:",omitempty"`
	// Wrong are answers that are never right.
	Wrong []string `json:",omitempty"`
}

func (t *Tally) add(o Tally) {
	t.Acquired += o.Acquired
	t.Taken += o.Taken
	t.Failed += o.Failed
	t.Lost += o.Lost
	t.Late = append(t.Late, o.Late...)
	t.Wrong = append(t.Wrong, o.Wrong...)
}

type worker struct {
	player *Player
	load   Load
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	tally Tally
}

func (l Load) start(p *Player) *worker {
	w := &worker{player: p, load: l}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for i := range l.Goroutines {
		w.work(uint64(i), l.Names, l.Shares, func(rng *rand.Rand) time.Duration {
			if l.Fast {
				return 0
			}
			return time.Duration(rng.ExpFloat64() * float64(time.Millisecond))
		})
	}
	if len(l.Slow) > 0 {
		w.work(uint64(l.Goroutines), l.Slow, nil, func(rng *rand.Rand) time.Duration {
			return time.Duration(rng.Int64N(int64(3 * l.TTL / 2)))
		})
	}
	return w
}

func (w *worker) work(i uint64, names []string, shares []history.Share, hold func(*rand.Rand) time.Duration) {
	rng := rand.New(rand.NewPCG(w.load.Seed, i))
	w.wg.Go(func() {
		for w.ctx.Err() == nil {
			var share history.Share
			if len(shares) > 0 && rng.IntN(2) == 0 {
				share = shares[rng.IntN(len(shares))]
			}
			down := len(shares) > 0 && share.Exclusive() && rng.IntN(8) == 0
			w.turn(rng, share, down, names[rng.IntN(len(names))], hold(rng))
		}
	})
}

// stop ends the work after the turns that are under way.
func (w *worker) stop() Tally {
	w.cancel()
	w.wg.Wait()
	return w.soFar()
}

func (w *worker) soFar() Tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tally
}

func (w *worker) count(change func(t *Tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.tally)
}

// turn is one acquisition. Most wait long enough, some give up soon.
func (w *worker) turn(rng *rand.Rand, share history.Share, down bool, name string, hold time.Duration) {
	patience := w.load.TTL + time.Duration(rng.Int64N(int64(3*w.load.TTL)))
	switch {
	case w.load.Fast:
		patience = time.Minute
	case rng.IntN(10) == 0:
		patience = time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
	}
	try := !w.load.Fast && rng.IntN(8) == 0

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	take := w.player.Acquire
	if try {
		take = w.player.Try
	}
	called := time.Now()
	h, err := take(ctx, name, share)
	w.judge(ctx, called, "acquire", err)
	switch {
	case errors.Is(err, locker.ErrNotAcquired):
		w.count(func(t *Tally) { t.Taken++ })
		pause(rng.Int64N(int64(3 * time.Millisecond)))
		return
	case err != nil:
		w.count(func(t *Tally) { t.Failed++ })
		if ctx.Err() == nil {
			pause(int64(20 * time.Millisecond)) // a server that refuses at once
		}
		return
	}
	w.count(func(t *Tally) { t.Acquired++ })
	if share.Exclusive() {
		if err := h.Work(); err != nil && !errors.Is(err, fence.ErrStale) {
			w.count(func(t *Tally) { t.Wrong = append(t.Wrong, err.Error()) })
		}
	}
	w.hold(h, hold)
	if down {
		called := time.Now()
		err := h.Downgrade(ctx)
		w.judge(ctx, called, "downgrade", err)
		w.hold(h, hold)
	}
	w.release(h)
}

// hold keeps a lock for so long, unless it is lost.
func (w *worker) hold(h *Holding, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.Lost():
	case <-w.ctx.Done():
	}
}

func (w *worker) release(h *Holding) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	called := time.Now()
	err := h.Release(ctx)
	w.judge(ctx, called, "release", err)
	if errors.Is(err, locker.ErrLost) {
		w.count(func(t *Tally) { t.Lost++ })
	}
}

// judge notes calls that came back late. A process that was stopped in between did not
// run itself, so its own time does not count while it was stopped: that shows as a
// timer of ours that is as late. Nor does the time before the call, where the ctx had ended by then.
func (w *worker) judge(ctx context.Context, called time.Time, op string, err error) {
	if ctx.Err() == nil {
		return
	}
	from, _ := ctx.Deadline()
	if called.After(from) {
		from = called
	}
	if by := time.Since(from); !inTime(by, late, from) {
		w.count(func(t *Tally) { t.Late = append(t.Late, fmt.Sprintf("%s: %v after its ctx (%v)", op, by, err)) })
	}
}

func pause(ns int64) { time.Sleep(time.Duration(ns)) }

// load has a process begin to work.
func (x *Exam) load(p *Process, l Load) {
	x.Helper()
	_, err := p.do(Order{Op: "load", Load: &l})
	x.Must(err)
}

// acquired asks processes how far they are.
func (x *Exam) acquired(procs []*Process) (n int) {
	x.Helper()
	for _, p := range procs {
		a, err := p.do(Order{Op: "count"})
		if err != nil {
			x.Fatalf("%s: %v", p.Name, err)
		}
		n += a.Tally.Acquired
	}
	return n
}

// unload ends the work of processes, and asserts that nothing was late or wrong.
func (x *Exam) unload(procs ...*Process) (sum Tally) {
	x.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, p := range procs {
		all.Go(func() {
			a, err := p.do(Order{Op: "stop", Within: 4 * x.Backend.TTL})
			if err != nil {
				x.Errorf("%s does not stop its work: %v", p.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.add(a.Tally)
		})
	}
	all.Wait()
	for _, l := range sum.Late {
		x.Errorf("late: %s", l)
	}
	for _, w := range sum.Wrong {
		x.Errorf("wrong: %s", w)
	}
	return sum
}
