package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// votes is what each node has said to a question: nil is yes, [driver.ErrGone] is no, and anything else is why it
// has said neither.
type votes []error

// unheard returns the votes before any node has answered.
func (b *backend) unheard() votes {
	said := make(votes, len(b.nodes))
	for i, n := range b.nodes {
		said[i] = n.unheard
	}
	return said
}

// settled reports whether a vote is yes or no.
func settled(vote error) bool { return vote == nil || vote == driver.ErrGone }

// count returns how many nodes have said yes, and how many no.
func (v votes) count() (yes, no int) {
	for _, vote := range v {
		switch vote {
		case nil:
			yes++
		case driver.ErrGone:
			no++
		}
	}
	return yes, no
}

// failure returns the error that says how all nodes voted.
func (v votes) failure() *QuorumError {
	e := &QuorumError{Nodes: len(v), Errs: slices.DeleteFunc(slices.Clone(v), settled)}
	e.Yes, e.No = v.count()
	return e
}

// ask asks all nodes at once, by calling question with the index of each. It returns what they have said by the time
// that decided says so, all have answered, or ctx has ended; late says that the node timeout is over. The
// others are still asked, in the background.
func (b *backend) ask(ctx context.Context, question func(i int) error, decided func(yes, no int, late bool) bool) votes {
	type answer struct {
		node int
		vote error
	}
	answers := make(chan answer, len(b.nodes))
	for i := range b.nodes {
		b.working.Go(func() { answers <- answer{i, question(i)} })
	}
	timeout := time.NewTimer(b.bound)
	defer timeout.Stop()
	said, late := b.unheard(), false
	for heard := 0; heard < len(said); {
		if yes, no := said.count(); decided(yes, no, late) {
			break
		}
		select {
		case a := <-answers:
			said[a.node] = a.vote
			heard++
		case <-timeout.C:
			late = true
		case <-ctx.Done():
			return said
		}
	}
	return said
}
