package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/stamp"
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
	net    *Network // its own, if Exam.Player opened it
	rec    *history.Recorder
	res    protected
}

// Acquire waits for the lock, or for as much of it as share says.
func (p *Player) Acquire(ctx context.Context, name string, share ...history.Share) (*Holding, error) {
	return p.take(ctx, p.client.Acquire, name, one(share))
}

// Try takes the lock, or as much of it as share says, if that is free.
func (p *Player) Try(ctx context.Context, name string, share ...history.Share) (*Holding, error) {
	return p.take(ctx, p.client.TryAcquire, name, one(share))
}

// one returns the share that is asked for: all of the name, if there is none.
func one(share []history.Share) history.Share { return append(share, history.Share{})[0] }

// way is a way to take a lock.
type way = func(context.Context, string, ...locker.AcquireOption) (conformance.Holding, error)

// options are those by which as much of a name is asked for.
func options(share history.Share) []locker.AcquireOption {
	switch {
	case share.Exclusive():
		return nil
	case share == history.Shared:
		return []locker.AcquireOption{locker.Shared()}
	}
	return []locker.AcquireOption{locker.Permits(int(share.Weight), int(share.Limit))}
}

// Locker is what the player uses, if that is a Locker of ours.
func (p *Player) Locker() locker.Locker {
	if c, ours := p.client.(client); ours {
		return c.Locker
	}
	return nil
}

func (p *Player) take(ctx context.Context, acquire way, name string, share history.Share) (*Holding, error) {
	op := p.calls(share, name)
	lock, err := acquire(ctx, name, options(share)...)
	if err != nil {
		p.refused(op, err)
		return nil, err
	}
	return p.holds(op, name, lock), nil
}

// holds returns the holding that the acquisition op has come to.
func (p *Player) holds(op int, name string, lock conformance.Holding) *Holding {
	h := &Holding{
		Lock:  lock,
		Op:    op,
		p:     p,
		name:  name,
		grant: stamp.Now(),
		lost:  make(chan struct{}),
		over:  make(chan struct{}),
	}
	p.rec.Add(history.Event{Kind: history.Granted, Op: op, T: h.grant, Token: lock.Token()})
	_ = h.Look()
	go h.watch()
	return h
}

// Lead campaigns for the lock and has fn hold it, again after each loss.
func (p *Player) Lead(ctx context.Context, name string, fn func(ctx context.Context, h *Holding) error) error {
	op := p.calls(history.Share{}, name)
	err := locker.Lead(ctx, p.Locker(), name, func(ctx context.Context, lock *locker.Lock) error {
		h := p.holds(op, name, lock)
		err := fn(ctx, h)
		if !h.lookForLoss() {
			h.releasing()
		}
		close(h.over)
		op = p.calls(history.Share{}, name) // of the next campaign, if there is one
		return err
	})
	p.refused(op, fmt.Errorf("it campaigns no more: %w", cmp.Or(err, context.Canceled)))
	return err
}

// AcquireAll takes several locks or none.
func (p *Player) AcquireAll(ctx context.Context, names []string) (locker.Locks, []*Holding, error) {
	var ops []int
	for _, name := range names {
		ops = append(ops, p.calls(history.Share{}, name))
	}
	locks, err := locker.AcquireAll(ctx, p.Locker(), names)
	var held []*Holding
	for i, op := range ops {
		if err != nil {
			p.refused(op, err)
			continue
		}
		held = append(held, p.holds(op, names[i], locks[i]))
	}
	return locks, held, err
}

// calls records that a lock is about to be asked for, and refused that it was not granted.
func (p *Player) calls(share history.Share, name string) (op int) {
	op = p.rec.NewOp()
	p.rec.Add(history.Event{Kind: history.Called, Op: op, Name: name, Share: share})
	return op
}

func (p *Player) refused(op int, err error) {
	p.rec.Add(history.Event{Kind: history.Refused, Op: op, Err: err.Error()})
}

// sent returns how many bytes of p have reached the servers.
func (p *Player) sent() (n int) {
	p.net.Each(func(link *proxy.Proxy) { n += int(link.Stats().BytesUp) })
	return n
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
	t := stamp.Now()
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
		if h.lookForLoss() {
			return
		}
	}
}

// lookForLoss looks, and notes a loss if there is one.
func (h *Holding) lookForLoss() (ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended = h.releases || h.lostAt != 0; ended || h.look() == nil {
		return ended
	}
	h.lostAt = stamp.Now()
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

// Downgrade has the lock shared from now on, if it is one of ours.
func (h *Holding) Downgrade(ctx context.Context) error {
	lock, ours := h.Lock.(*locker.Lock)
	if !ours {
		return nil
	}
	h.p.rec.Add(history.Event{Kind: history.Shares, Op: h.Op})
	err := lock.Downgrade(ctx)
	if err == nil {
		h.p.rec.Add(history.Event{Kind: history.HasShared, Op: h.Op})
	}
	return err
}

// Release gives the lock back.
func (h *Holding) Release(ctx context.Context) error {
	first := h.releasing()
	err := h.Lock.Release(ctx)
	if first {
		e := history.Event{Kind: history.Released, Op: h.Op}
		if err != nil {
			e.Err = err.Error()
		}
		h.p.rec.Add(e)
		close(h.over)
	}
	return err
}

// releasing records that the lock is about to be given back, once; it reports whether it did.
func (h *Holding) releasing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.releases {
		return false
	}
	_ = h.look()
	h.releases = true
	h.p.rec.Add(history.Event{Kind: history.Release, Op: h.Op, Alive: h.alive})
	return true
}
