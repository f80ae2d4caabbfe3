//go:build unix

package file

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/driver"
)

// link stands between the core and the driver and makes the calls of one Locker hang or fail, as a disk does that
// hangs. A claim that waits when it begins may then be granted, and nobody hears of it.
type link struct {
	*backend
	mu      sync.Mutex
	calls   error // what calls come back with; errHangs: they do not begin
	replies bool  // they are held back
	over    chan struct{}
}

var (
	errHangs = errors.New("the disk hangs")
	errFails = errors.New("the disk fails")
)

func openLink(dir string, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
	cfg, err := locker.NewConfig[struct{}]("file", nil, opts...)
	if err != nil {
		return nil, conformance.Link{}, err
	}
	d, err := open(dir, cfg)
	if err != nil {
		return nil, conformance.Link{}, err
	}
	l := &link{backend: d, over: make(chan struct{})}
	made, err := locker.New(l, cfg)
	return made, conformance.Link{
		Freeze: func() { l.set(errHangs, true) },
		Mute:   func() { l.set(nil, true) },
		Cut:    func() { l.set(errFails, true) },
		Heal:   func() { l.set(nil, false) },
	}, err
}

func (l *link) set(calls error, replies bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.replies = calls, replies
	close(l.over)
	l.over = make(chan struct{})
}

func (l *link) state() (replies bool, over chan struct{}, calls error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replies, l.over, l.calls
}

// before waits until a call may begin. With patience it waits also while calls fail.
func (l *link) before(ctx context.Context, patience bool) error {
	for {
		_, over, calls := l.state()
		switch {
		case calls == nil:
			return nil
		case calls == errFails && !patience:
			return calls
		}
		select {
		case <-over:
		case <-ctx.Done():
			return calls
		}
	}
}

// after waits until the reply may come, or until ctx ends.
func (l *link) after(ctx context.Context) error {
	for {
		replies, over, _ := l.state()
		if !replies {
			return nil
		}
		select {
		case <-over:
		case <-ctx.Done():
			return errHangs
		}
	}
}

func (l *link) call(ctx context.Context, f func() error) error {
	if err := l.before(ctx, false); err != nil {
		return err
	}
	err := f()
	if lost := l.after(ctx); lost != nil {
		return lost
	}
	return err
}

func (l *link) Acquire(ctx context.Context, c *driver.Claim) (g driver.Grant, err error) {
	if err := l.before(ctx, c.Wait); err != nil {
		return g, err
	}
	g, err = l.backend.Acquire(ctx, c)
	if lost := l.after(ctx); lost != nil {
		return driver.Grant{}, lost
	}
	return g, err
}

func (l *link) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	if l.before(ctx, false) != nil {
		return
	}
	l.backend.Renew(ctx, claims, func(c *driver.Claim, until driver.Instant, err error) {
		if l.after(ctx) == nil {
			report(c, until, err)
		}
	})
}

func (l *link) Release(ctx context.Context, c *driver.Claim) error {
	return l.call(ctx, func() error { return l.backend.Release(ctx, c) })
}

func (l *link) Abandon(ctx context.Context, c *driver.Claim) error {
	return l.call(ctx, func() error { return l.backend.Abandon(ctx, c) })
}

func (l *link) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	return l.call(ctx, func() error { return l.backend.Lighten(ctx, c, weight) })
}

func (l *link) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	return l.call(ctx, func() error { return l.backend.Linger(ctx, c, d) })
}
