package redisnode

import (
	"context"
	"fmt"
	"time"
)

const (
	// errorGrace is how long a request whose context has ended may still say what it was held up by.
	errorGrace = 20 * time.Millisecond
	// attempts is how many connections in a row may be found broken.
	attempts = 3
)

// run sends a script whose first key is key and returns the answer. It returns soon after ctx has ended. lost
// says that the request, or an earlier sending of it, had no answer and may still have an effect. Whoever
// runs a script must be able to bear that it is carried out more than once.
func (n *Node) run(ctx context.Context, s script, key string, args []any) (v any, lost bool, err error) {
	if client := n.inPlace(ctx, key); client != nil {
		v, err = n.timed(func() (any, error) { return s.run(ctx, client, args) })
		lost = err != nil && !Ineffective(err)
		if err == nil || ctx.Err() != nil {
			return v, lost, explain(err)
		}
	}
	for range attempts {
		v, err = n.aside(ctx, func() (any, error) { return s.run(ctx, n.client, args) })
		lost = lost || err != nil && !Ineffective(err)
		if err == nil || !broken(err) || ctx.Err() != nil {
			break
		}
	}
	return v, lost, explain(err)
}

// aside makes a call on a goroutine of its own, which is left behind when ctx ends: go-redis does not end a call
// when its context does. It returns soon after ctx has ended.
func (n *Node) aside(ctx context.Context, call func() (any, error)) (any, error) {
	type result struct {
		v   any
		err error
	}
	results := make(chan result, 1)
	n.working.Go(func() {
		v, err := n.timed(call)
		results <- result{v, err}
	})
	var r result
	select {
	case r = <-results:
	case <-ctx.Done():
		select {
		case r = <-results:
		case <-time.After(errorGrace):
			r.err = fmt.Errorf("no answer in time: %w", ctx.Err())
		}
	}
	return r.v, r.err
}

// timed makes a call and notes whether the server was quick to answer. It makes an error of a panic, which a
// hook or a dialer of the caller's may raise.
func (n *Node) timed(call func() (any, error)) (v any, err error) {
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the client: %v", p)
		}
		n.quick.Store(err == nil && time.Since(began) < quickAnswer)
	}()
	return call()
}
