package redlock

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/seed80cd6120/locker/driver"
)

// each makes a request to each node. It returns what they said: nil is that it was carried out. It is an error if no
// majority has answered.
func (b *backend) each(ctx context.Context, f func(ctx context.Context, i int) error) (votes, error) {
	said := b.ask(ctx, func(i int) error {
		return b.request(b.nodes[i], func(ctx context.Context) error { return f(ctx, i) })
	}, func(yes, no int, late bool) bool { return late && yes+no >= b.quorum })
	if yes, no := said.count(); ctx.Err() != nil || yes+no < b.quorum {
		return nil, said.failure()
	}
	return said, nil
}

// collect returns what the nodes that answer know, and on how many of these there must be what a majority of all has.
func collect[T any](ctx context.Context, b *backend, f func(ctx context.Context, n *node) (T, error)) (known []T, enough int, err error) {
	all := make([]T, len(b.nodes))
	said, err := b.each(ctx, func(ctx context.Context, i int) (err error) {
		all[i], err = f(ctx, b.nodes[i])
		return err
	})
	for i, vote := range said {
		if vote == nil {
			known = append(known, all[i])
		}
	}
	return known, max(1, len(known)-(len(b.nodes)-b.quorum)), err
}

// Lighten implements [driver.Weigher].
func (b *backend) Lighten(ctx context.Context, dc *driver.Claim, weight int32) error {
	said, err := b.each(ctx, func(ctx context.Context, i int) error {
		return b.nodes[i].Lighten(ctx, stateOf(dc).places[i].at, weight)
	})
	switch yes, no := said.count(); {
	case err != nil || yes >= b.quorum:
		return err
	case no > len(b.nodes)-b.quorum:
		return driver.ErrGone
	}
	return said.failure()
}

// Evict implements [driver.Evictor].
func (b *backend) Evict(ctx context.Context, name, id string) error {
	said, err := b.each(ctx, func(ctx context.Context, i int) error { return b.nodes[i].Evict(ctx, name, id) })
	if yes, _ := said.count(); err == nil && yes == 0 {
		err = driver.ErrGone
	}
	return err
}

// Names implements [driver.Inspector].
func (b *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		known, enough, err := collect(ctx, b, func(ctx context.Context, n *node) (names []string, err error) {
			for name, err := range n.Names(ctx, prefix) {
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
			if n >= enough && !yield(name, nil) {
				return
			}
		}
	}
}

// Look implements [driver.Inspector]. It shows who holds the name by more than half of the nodes that answer, and
// those others of whom as many know as a majority may have left.
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	known, enough, err := collect(ctx, b, func(ctx context.Context, n *node) ([]driver.Position, error) { return n.Look(ctx, name) })
	if err != nil {
		return nil, err
	}
	by := make(map[string][]driver.Position)
	for _, p := range slices.Concat(known...) {
		by[p.ID] = append(by[p.ID], p)
	}
	var all []driver.Position
	for said := range maps.Values(by) {
		slices.SortFunc(said, func(p, q driver.Position) int { return cmp.Compare(q.Left, p.Left) }) // holders first
		held := 0
		for held < len(said) && said[held].Held {
			held++
		}
		if 2*held > len(known) {
			p := said[min(b.quorum, held)-1]
			if !b.fenced {
				p.Token = 0
			}
			all = append(all, p)
		} else if p := said[len(said)-1]; len(said) >= enough {
			p.Held, p.Token, p.Left = false, 0, 0
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(p, q driver.Position) int {
		if p.Held != q.Held {
			if p.Held {
				return -1
			}
			return 1
		}
		return cmp.Or(p.Since.Compare(q.Since), cmp.Compare(p.ID, q.ID))
	})
	return all, nil
}
