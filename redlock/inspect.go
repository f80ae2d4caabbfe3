package redlock

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// each makes a request to every node, silent ones excepted, and returns how many carried it out, how
// many said driver.ErrGone, and, if these are together no majority, why.
func (b *backend) each(ctx context.Context, f func(ctx context.Context, i int) error) (yes, gone int, err error) {
	type answer struct {
		i   int
		err error
	}
	first, rest := b.order("")
	nodes := append(first, rest...)
	answers := make(chan answer, len(nodes))
	for _, i := range nodes {
		b.working.Go(func() {
			gone := false
			err := b.request(b.nodes[i], func(ctx context.Context) error {
				err := f(ctx, i)
				if gone = err == driver.ErrGone; gone {
					return nil
				}
				return err
			})
			if gone {
				err = driver.ErrGone
			}
			answers <- answer{i, err}
		})
	}
	e := &QuorumError{Nodes: len(b.nodes)}
	for range nodes {
		select {
		case a := <-answers:
			switch a.err {
			case nil:
				e.Yes++
			case driver.ErrGone:
				e.No++
			default:
				e.Errs = append(e.Errs, a.err)
			}
		case <-ctx.Done():
			return e.Yes, e.No, because(ctx.Err(), e)
		}
	}
	if e.Yes+e.No < b.quorum {
		return e.Yes, e.No, e
	}
	return e.Yes, e.No, nil
}

// enough is how many of the nodes that answered know at least of what is on a majority of all.
func (b *backend) enough(answered int) int { return max(1, answered-(len(b.nodes)-b.quorum)) }

// Lighten implements [driver.Weigher].
func (b *backend) Lighten(ctx context.Context, dc *driver.Claim, weight int32) error {
	c := stateOf(dc)
	yes, gone, err := b.each(ctx, func(ctx context.Context, i int) error {
		v := c.votes[i]
		c.mu.Lock()
		held := v.held
		c.mu.Unlock()
		if !held {
			return driver.ErrGone
		}
		return v.Node.Lighten(ctx, v.at, weight)
	})
	switch {
	case yes >= b.quorum:
		return nil
	case gone > len(b.nodes)-b.quorum:
		return driver.ErrGone
	case err == nil:
		err = &QuorumError{Nodes: len(b.nodes), Yes: yes, No: gone}
	}
	return err
}

// Look implements [driver.Inspector]. It shows what more than half of the nodes that answer say, and
// those who wait on as many as a majority may have left.
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	answers := make([][]driver.Position, len(b.nodes))
	said := make(chan int, len(b.nodes))
	answered, _, err := b.each(ctx, func(ctx context.Context, i int) (err error) {
		positions, err := b.nodes[i].Look(ctx, name)
		if err == nil {
			answers[i] = positions
			said <- i
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var ids []string
	by := make(map[string][]driver.Position)
	for range answered {
		for _, p := range answers[<-said] {
			if by[p.ID] == nil {
				ids = append(ids, p.ID)
			}
			by[p.ID] = append(by[p.ID], p)
		}
	}
	var all []driver.Position
	for _, id := range ids {
		if p, ok := b.merge(by[id], answered); ok {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(p, q driver.Position) int {
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

// merge makes one position of what the nodes say of one claim.
func (b *backend) merge(all []driver.Position, answered int) (driver.Position, bool) {
	var held []driver.Position
	for _, p := range all {
		if p.Held {
			held = append(held, p)
		}
	}
	if 2*len(held) <= answered {
		p := all[0]
		p.Held, p.Token, p.Left = false, 0, time.Duration(0)
		return p, len(all) >= b.enough(answered)
	}
	slices.SortFunc(held, func(p, q driver.Position) int { return cmp.Compare(q.Left, p.Left) })
	p := held[min(b.quorum, len(held))-1]
	if !b.fenced {
		p.Token = 0
	}
	return p, true
}

// Names implements [driver.Inspector].
func (b *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		said := make(chan []string, len(b.nodes))
		answered, _, err := b.each(ctx, func(ctx context.Context, i int) error {
			var names []string
			for name, err := range b.nodes[i].Names(ctx, prefix) {
				if err != nil {
					return err
				}
				names = append(names, name)
			}
			said <- names
			return nil
		})
		if err != nil {
			yield("", err)
			return
		}
		found := make(map[string]int)
		for range answered {
			for _, name := range <-said {
				found[name]++
			}
		}
		for name, n := range found {
			if n >= b.enough(answered) && !yield(name, nil) {
				return
			}
		}
	}
}

// Evict implements [driver.Evictor].
func (b *backend) Evict(ctx context.Context, name, id string) error {
	yes, _, err := b.each(ctx, func(ctx context.Context, i int) error { return b.nodes[i].Evict(ctx, name, id) })
	if err == nil && yes == 0 {
		return driver.ErrGone
	}
	return err
}
