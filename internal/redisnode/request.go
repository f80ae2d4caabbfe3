package redisnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// go-redis does not end a call when its context does: it looks at the context only while it waits
// for a connection. A request is therefore sent in one of two ways. Either aside, on a goroutine of
// its own, which is left behind when the context ends. Or, as long as the server answers quickly,
// in place, on the caller's goroutine, by a client that waits no longer for an answer than the
// promise to return within 100 ms allows. To change goroutines twice costs as much as the request
// itself: a third of the rate alone, a fifth with 16 clients.
const (
	// patience is how long a request in place may take.
	patience = 75 * time.Millisecond
	// brisk is how long the last request may have taken for the next to be sent in place.
	brisk = 20 * time.Millisecond
	// parting is how long a request whose context has ended may still say what it was held up by.
	parting = 20 * time.Millisecond
	// attempts is how many connections in a row may be found broken.
	attempts = 3
)

// redirects are answers of a node of a Cluster that only the client of the whole Cluster knows how
// to follow.
var redirects = []string{"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY"}

// run sends a script whose first key is key and returns the answer. It returns soon after ctx has
// ended. lost says that the request, or an earlier sending of it, had no answer and may still have
// an effect. Whoever runs a script must be able to bear that it is carried out more than once.
func (n *Node) run(ctx context.Context, s *script, key string, args []any) (v any, lost bool, err error) {
	if client := n.inPlace(ctx, key); client != nil {
		began := time.Now()
		v, err = safely(func() (any, error) { return s.run(ctx, client, args) })
		n.brisk.Store(time.Since(began) < brisk)
		if err == nil {
			return v, false, nil
		}
		lost = !Ineffective(err)
		if (!lost && !slices.Contains(redirects, Word(err))) || ctx.Err() != nil {
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
	if err != nil {
		err = explain(err)
	}
	return v, lost, err
}

// aside makes a call on a goroutine of its own and returns soon after ctx has ended.
func (n *Node) aside(ctx context.Context, call func() (any, error)) (any, error) {
	type result struct {
		v   any
		err error
	}
	results := make(chan result, 1)
	began := time.Now()
	n.working.Go(func() {
		v, err := safely(call)
		n.brisk.Store(err == nil && time.Since(began) < brisk)
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
	if why := n.dials.failedSince(began); why != nil && r.err != nil && errors.Is(r.err, ctx.Err()) {
		r.err = unconnected{why}
	}
	return r.v, r.err
}

// safely makes an error of a panic in call, which a hook or a dialer of the caller's may raise.
func safely(call func() (any, error)) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in the client: %v", p)
		}
	}()
	return call()
}

// inPlace returns the connection for requests in place to the server that has key; nil if the
// server was slow last time, or the client has hooks, which may take any time and are not known to
// another client.
func (n *Node) inPlace(ctx context.Context, key string) processor {
	if !n.brisk.Load() {
		return nil
	}
	var node *goredis.Client
	switch c := n.client.(type) {
	case *goredis.Client:
		node = c
	case *goredis.ClusterClient:
		if !watchHooks(c, c).none() {
			return nil
		}
		node, _ = c.MasterForKey(ctx, key)
	}
	if node == nil || !watchHooks(node, node).none() {
		return nil
	}
	if p, ok := n.quick.Load(node); ok {
		return p.(*pinnedConn)
	}
	p, _ := n.quick.LoadOrStore(node, newPinnedConn(node))
	return p.(*pinnedConn)
}

// unconnected is the error of a request whose context has ended, and while which it was not possible to
// connect. It may have been sent all the same, on a connection that there was.
type unconnected struct{ error }

func (u unconnected) Unwrap() error { return u.error }
