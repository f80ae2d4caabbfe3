package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/faults/history"
)

// protected is the resource of package fence, here or in another process.
type protected interface {
	Open(name string, token int64, holder string) (int64, error)
	Write(name string, token int64, holder string, was int64) error
}

// Player is a user of a lock service who has everything recorded that happens to it.
type Player struct {
	Name   string
	client conformance.Client
	rec    *history.Recorder
	res    protected
}

// Acquire waits for the lock.
func (p *Player) Acquire(ctx context.Context, name string) (*Holding, error) {
	return p.take(name, func() (conformance.Holding, error) { return p.client.Acquire(ctx, name) })
}

// Try takes the lock if it is free.
func (p *Player) Try(ctx context.Context, name string) (*Holding, error) {
	return p.take(name, func() (conformance.Holding, error) { return p.client.TryAcquire(ctx, name) })
}

func (p *Player) take(name string, acquire func() (conformance.Holding, error)) (*Holding, error) {
	op := p.rec.NewOp()
	p.rec.Add(history.Event{Kind: history.Called, Op: op, Name: name})
	lock, err := acquire()
	if err != nil {
		p.rec.Add(history.Event{Kind: history.Refused, Op: op, Err: err.Error(), Gone: errors.Is(err, locker.ErrNotAcquired)})
		return nil, err
	}
	h := &Holding{
		Lock:  lock,
		Op:    op,
		p:     p,
		name:  name,
		grant: history.Now(),
		lost:  make(chan struct{}),
		over:  make(chan struct{}),
	}
	p.rec.Add(history.Event{Kind: history.Granted, Op: op, T: h.grant, Token: lock.Token()})
	_ = h.Look()
	go h.watch()
	return h, nil
}

// Close closes the client and the recording.
func (p *Player) Close(ctx context.Context) error {
	return errors.Join(p.client.Close(ctx), p.rec.Close())
}

// Holding is a lock that was granted to a Player. Its context is looked at all the
// time, as a careful holder would.
type Holding struct {
	Lock conformance.Holding
	Op   int

	p     *Player
	name  string
	grant int64
	lost  chan struct{} // closed when the loss was noticed
	over  chan struct{} // closed when Release has returned

	mu       sync.Mutex
	alive    int64 // the last moment before a look that found the context alive
	noted    int64 // the last such that was recorded
	lostAt   int64
	releases bool
}

// beat is how often the context is looked at, note how often that is recorded.
const (
	beat = time.Millisecond
	note = 5 * time.Millisecond
)

// Look returns the error of the context, and records that it was alive.
func (h *Holding) Look() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.look()
}

func (h *Holding) look() error {
	t := history.Now()
	if err := h.Lock.Context().Err(); err != nil {
		return err
	}
	h.alive = t
	if t-h.noted > int64(note) {
		h.noted = t
		h.p.rec.Add(history.Event{Kind: history.Alive, Op: h.Op, T: t})
	}
	return nil
}

func (h *Holding) watch() {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	done := h.Lock.Context().Done()
	for {
		select {
		case <-h.over:
			return
		case <-done:
		case <-ticker.C:
		}
		if h.mourn() {
			return
		}
	}
}

// mourn looks, and takes a loss down if there is one.
func (h *Holding) mourn() (ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.releases || h.look() == nil {
		return h.releases
	}
	h.lostAt = history.Now()
	h.p.rec.Add(history.Event{Kind: history.Lost, Op: h.Op, T: h.lostAt, Alive: h.alive})
	close(h.lost)
	return true
}

// Lost is closed when the holder has been told that the lock is lost.
func (h *Holding) Lost() <-chan struct{} { return h.lost }

// Alive is the last moment for which it is proven that the context was alive, LostAt
// the moment at which the holder was told, or 0, both on the clock of package history.
func (h *Holding) Alive() int64  { h.mu.Lock(); defer h.mu.Unlock(); return h.alive }
func (h *Holding) LostAt() int64 { h.mu.Lock(); defer h.mu.Unlock(); return h.lostAt }

// Grant is the moment at which the lock was granted.
func (h *Holding) Grant() int64 { return h.grant }

// Work does what the lock is there to protect. It does not look at the context: the
// resource is to refuse those who are late.
func (h *Holding) Work() error {
	who := fmt.Sprintf("%s#%d", h.p.Name, h.Op)
	n, err := h.p.res.Open(h.name, h.Lock.Token(), who)
	if err != nil {
		return err
	}
	return h.p.res.Write(h.name, h.Lock.Token(), who, n)
}

// Release gives the lock back.
func (h *Holding) Release(ctx context.Context) error {
	h.mu.Lock()
	first := !h.releases
	if first {
		_ = h.look()
		h.releases = true
		h.p.rec.Add(history.Event{Kind: history.Release, Op: h.Op, Alive: h.alive})
	}
	h.mu.Unlock()
	err := h.Lock.Release(ctx)
	if first {
		e := history.Event{Kind: history.Released, Op: h.Op, Gone: errors.Is(err, locker.ErrLost)}
		if err != nil {
			e.Err = err.Error()
		}
		h.p.rec.Add(e)
		close(h.over)
	}
	return err
}
