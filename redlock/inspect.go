package redlock

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/seed80cd6120/locker/driver"
)

// request makes a request to a node.
type request func(n *node, f func(ctx context.Context) error) error

// each calls f for all nodes, by send. It returns what those know for which there is no error, and how many say
// driver.ErrGone; and an error if these together are no majority, when all have answered or the node timeout is over.
func each[T any](ctx context.Context, b *backend, send request, f func(ctx context.Context, i int) (T, error)) (known []T, gone int, err error) {
	all := make([]T, len(b.nodes))
	said := b.ask(ctx, func(i int) error {
		return send(b.nodes[i], func(ctx context.Context) (err error) {
			all[i], err = f(ctx, i)
			return err
		})
	}, func(yes, no int, late bool) bool { return late && yes+no >= b.quorum })
	yes, no := said.count()
	if ctx.Err() != nil || yes+no < b.quorum {
		return nil, 0, b.failure(said)
	}
	for i, vote := range said {
		if vote == nil {
			known = append(known, all[i])
		}
	}
	return known, no, nil
}

// enough is how many of the nodes that answered know at least of what is on a majority of all.
func (b *backend) enough(answered int) int { return max(1, answered-(len(b.nodes)-b.quorum)) }

// Lighten implements [driver.Weigher]. When a majority has made the claim lighter, the other nodes are told in the background.
func (b *backend) Lighten(ctx context.Context, dc *driver.Claim, weight int32) error {
	c := stateOf(dc)
	lighten := func(ctx context.Context, i int) (int, error) {
		p := c.places[i]
		p.calls.Lock()
		defer p.calls.Unlock()
		return i, p.Lighten(ctx, dc, weight)
	}
	lighter, gone, err := each(ctx, b, b.request, lighten)
	switch {
	case err != nil:
		return err
	case gone > len(b.nodes)-b.quorum:
		return driver.ErrGone
	case len(lighter) < b.quorum:
		return &QuorumError{Nodes: len(b.nodes), Yes: len(lighter), No: gone}
	}
	for i, n := range b.nodes {
		if !slices.Contains(lighter, i) {
			go b.repeat(func() error {
				err := b.request(n, func(ctx context.Context) error { _, err := lighten(ctx, i); return err })
				c.mu.Lock()
				defer c.mu.Unlock()
				if err == driver.ErrGone && !c.ended {
					err = driver.ErrTaken // it may be in the queue there, and be granted the name later
				}
				return err
			})
		}
	}
	return nil
}

// Evict implements [driver.Evictor]. A claim on fewer nodes than [backend.Look] shows it for is not there: it is being
// released, say.
func (b *backend) Evict(ctx context.Context, name, id string) error {
	evicted, gone, err := each(ctx, b, b.request, func(ctx context.Context, i int) (int, error) {
		return i, b.nodes[i].Evict(ctx, name, id)
	})
	if err == nil && len(evicted) < b.enough(len(evicted)+gone) {
		err = driver.ErrGone
	}
	return err
}

// Names implements [driver.Inspector]. To look through many keys takes a healthy node longer than the node timeout.
func (b *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		scan := func(_ *node, f func(context.Context) error) error { return f(ctx) }
		known, _, err := each(ctx, b, scan, func(ctx context.Context, i int) (names []string, err error) {
			for name, err := range b.nodes[i].Names(ctx, prefix) {
				if err != nil {
					return nil, err
				}
				names = append(names, name)
			}
			return names, nil
		})
		if err != nil {
			yield("", err)
			return
		}
		found := make(map[string]int)
		for _, name := range slices.Concat(known...) {
			found[name]++
		}
		for name, n := range found {
			if n >= b.enough(len(known)) && !yield(name, nil) {
				return
			}
		}
	}
}

// mostCommonToken returns the token that most have, and of several the greatest. A majority has written that of the holder; a
// node that it did not need may have written another.
func mostCommonToken(held []driver.Position) int64 {
	count := make(map[int64]int)
	for _, p := range held {
		count[p.Token]++
	}
	tokens := slices.Collect(maps.Keys(count))
	return slices.MaxFunc(tokens, func(x, y int64) int { return cmp.Or(cmp.Compare(count[x], count[y]), cmp.Compare(x, y)) })
}

// Look implements [driver.Inspector]. It shows who holds the name by more than half of the nodes that answer, and
// those others of whom as many know as a majority may have left.
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	known, _, err := each(ctx, b, b.request, func(ctx context.Context, i int) ([]driver.Position, error) {
		return b.nodes[i].Look(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	by := make(map[string][]driver.Position)
	for _, p := range slices.Concat(known...) {
		by[p.ID] = append(by[p.ID], p)
	}
	var holders, waiters []driver.Position
	for _, said := range by {
		slices.SortFunc(said, func(p, q driver.Position) int { return cmp.Compare(q.Left, p.Left) }) // holders first
		held := 0
		for held < len(said) && said[held].Held {
			held++
		}
		if 2*held > len(known) {
			p := said[min(b.quorum, held)-1]
			p.Token = 0
			if b.fenced {
				p.Token = mostCommonToken(said[:held])
			}
			holders = append(holders, p)
		} else if p := said[len(said)-1]; len(said) >= b.enough(len(known)) {
			p.Held, p.Token, p.Left = false, 0, 0
			waiters = append(waiters, p)
		}
	}
	byAge := func(p, q driver.Position) int { return cmp.Or(p.Since.Compare(q.Since), cmp.Compare(p.ID, q.ID)) }
	slices.SortFunc(holders, byAge)
	slices.SortFunc(waiters, byAge)
	return append(holders, waiters...), nil
}
