package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// go-redis does not end a call when its context does: it looks at the context only
// while it waits for a connection. A request is therefore sent in one of two ways.
// Either aside, on a goroutine of its own, which is left behind when the context
// ends. Or, as long as the server answers quickly, on the caller's own goroutine,
// by a client that waits no longer for an answer than the promise to return within
// 100 ms allows. To change goroutines twice costs as much as the request itself.
//
// What was left behind or waited for in vain may still have an effect. The caller
// has to deal with that as with any lost answer.
const (
	// bound is how long a request on the caller's goroutine may take.
	bound = 75 * time.Millisecond
	// brisk is how long the last request may have taken for the next to be sent on the
	// caller's goroutine.
	brisk = 20 * time.Millisecond
	// parting is how long a request whose context has ended may still say what it
	// was held up by.
	parting = 20 * time.Millisecond
)

// slowError is the error of a request that was not answered within bound. It may
// be sent again at once, since now nobody is too impatient.
type slowError struct{ error }

func (e slowError) Unwrap() error { return e.error }

func isSlow(err error) bool { return err != nil && errors.As(err, new(slowError)) }

// processor is what is used of a client to send a request.
type processor interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
}

// exchange sends a request that concerns one name. It returns soon after ctx has
// ended.
func (b *backend) exchange(ctx context.Context, q runner, t *ticket, words args) (any, error) {
	if client := b.quick(ctx, t.clock); client != nil {
		began := b.clock.Now()
		v, err := q.run(ctx, client, words)
		if b.clock.Now().Sub(began) > brisk {
			b.brisk.Store(false)
		}
		if err == nil {
			return v, nil
		}
		switch {
		case isTimeout(err) && ctx.Err() == nil && !refused(err):
			return nil, slowError{err}
		case !slices.Contains(redirects, word(err)):
			return v, err
		}
	}
	return b.aside(ctx, q, slices.Clone(words))
}

// redirects are the answers of a node of a Cluster that only the client of the whole Cluster
// knows how to follow.
var redirects = []string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY"}

func (b *backend) aside(ctx context.Context, q runner, words args) (any, error) {
	type result struct {
		v   any
		err error
	}
	results := make(chan result, 1)
	began := time.Now()
	b.working.Go(func() {
		v, err := q.run(ctx, b.client, words)
		b.brisk.Store(err == nil && time.Since(began) < brisk)
		results <- result{v, err}
	})
	var r result
	select {
	case r = <-results:
	case <-ctx.Done():
		grace := time.NewTimer(parting)
		defer grace.Stop()
		select {
		case r = <-results:
		case <-grace.C:
			r.err = fmt.Errorf("no answer in time: %w", ctx.Err())
		}
	}
	if why := b.dials.since(began); why != nil && r.err != nil && errors.Is(r.err, ctx.Err()) {
		r.err = unconnected{why}
	}
	return r.v, r.err
}

// unconnected is the error of a request whose context has ended and while which it was
// not possible to connect. It may have been sent all the same, on a connection that there
// was.
type unconnected struct{ error }

func (e unconnected) Unwrap() error { return e.error }
