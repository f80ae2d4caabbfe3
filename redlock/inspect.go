package redlock

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/seed80cd6120/locker/driver"
)

// each makes a request to these nodes. It returns how many carried it out, and how many said driver.ErrGone; and
// an error if these together are no majority of all.
func (b *backend) each(ctx context.Context, nodes []int, f func(ctx context.Context, i int) error) (yes, gone int, err error) {
	var mu sync.Mutex
	e := QuorumError{Nodes: len(b.nodes), No: len(b.nodes) - len(nodes)}
	b.ask(ctx, nodes, func(i int) {
		err := b.request(b.nodes[i], func(ctx context.Context) error { return f(ctx, i) })
		mu.Lock()
		defer mu.Unlock()
		switch err {
		case nil:
			e.Yes++
		case driver.ErrGone:
			e.No++
		default:
			e.Errs = append(e.Errs, err)
		}
	}, func() bool { return false })
	mu.Lock()
	defer mu.Unlock()
	if ctx.Err() != nil || e.Yes+e.No < b.quorum {
		err = new(e)
	}
	return e.Yes, e.No, err
}

// enough is how many of the nodes that answered know at least of what is on a majority of all.
func (b *backend) enough(answered int) int { return max(1, answered-(len(b.nodes)-b.quorum)) }

// Lighten implements [driver.Weigher].
func (b *backend) Lighten(ctx context.Context, dc *driver.Claim, weight int32) error {
	c := stateOf(dc)
	yes, gone, err := b.each(ctx, b.tally(c).held, func(ctx context.Context, i int) error {
		return b.nodes[i].Lighten(ctx, c.votes[i].at, weight)
	})
	switch {
	case err != nil || yes >= b.quorum:
		return err
	case gone > len(b.nodes)-b.quorum:
		return driver.ErrGone
	}
	return &QuorumError{Nodes: len(b.nodes), Yes: yes, No: gone}
}

// Evict implements [driver.Evictor].
func (b *backend) Evict(ctx context.Context, name, id string) error {
	yes, _, err := b.each(ctx, b.all(), func(ctx context.Context, i int) error { return b.nodes[i].Evict(ctx, name, id) })
	if err == nil && yes == 0 {
		err = driver.ErrGone
	}
	return err
}

// Names implements [driver.Inspector].
func (b *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var mu sync.Mutex
		found := make(map[string]int)
		answered, _, err := b.each(ctx, b.all(), func(ctx context.Context, i int) error {
			for name, err := range b.nodes[i].Names(ctx, prefix) {
				if err != nil {
					return err
				}
				mu.Lock()
				found[name]++
				mu.Unlock()
			}
			return nil
		})
		if err != nil {
			yield("", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for name, n := range found {
			if n >= b.enough(answered) && !yield(name, nil) {
				return
			}
		}
	}
}

// Look implements [driver.Inspector]. It shows who holds the name by more than half of the nodes that answer, and
// those others of whom as many know as a majority may have left.
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	var mu sync.Mutex
	by := make(map[string][]driver.Position)
	answered, _, err := b.each(ctx, b.all(), func(ctx context.Context, i int) error {
		positions, err := b.nodes[i].Look(ctx, name)
		mu.Lock()
		defer mu.Unlock()
		for _, p := range positions {
			by[p.ID] = append(by[p.ID], p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	var holders, waiters []driver.Position
	for _, said := range by {
		slices.SortFunc(said, func(p, q driver.Position) int { return cmp.Compare(q.Left, p.Left) }) // holders first
		held := 0
		for held < len(said) && said[held].Held {
			held++
		}
		if 2*held > answered {
			p := said[min(b.quorum, held)-1]
			if !b.fenced {
				p.Token = 0
			}
			holders = append(holders, p)
		} else if p := said[len(said)-1]; len(said) >= b.enough(answered) {
			p.Held, p.Token, p.Left = false, 0, 0
			waiters = append(waiters, p)
		}
	}
	byAge := func(p, q driver.Position) int { return cmp.Or(p.Since.Compare(q.Since), cmp.Compare(p.ID, q.ID)) }
	slices.SortFunc(holders, byAge)
	slices.SortFunc(waiters, byAge)
	return append(holders, waiters...), nil
}
