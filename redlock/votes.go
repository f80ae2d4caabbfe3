package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

// votes is what each node has said to a question: nil is yes, [driver.ErrGone] is no, and anything else is why it
// has said neither.
type votes []error

// unheard returns the votes before any node has answered.
func (b *backend) unheard() votes { return slices.Repeat(votes{errUnheard}, len(b.nodes)) }

// settled reports whether a vote is yes or no.
func settled(vote error) bool { return vote == nil || vote == driver.ErrGone }

// lasting reports whether a vote is an error that no waiting will mend.
func lasting(vote error) bool { return !settled(vote) && !redisnode.Transient(vote) }

// lasting returns how many nodes have such an error.
func (v votes) lasting() (n int) {
	for _, vote := range v {
		if lasting(vote) {
			n++
		}
	}
	return n
}

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

// QuorumError says that no majority of the nodes said yes, and what each of them said instead.
// errors.Is and errors.As look into the errors of all nodes.
type QuorumError struct {
	// Nodes is how many there are, Yes how many said yes and No how many that another has the
	// lock. The others gave no usable answer, or none yet.
	Nodes, Yes, No int
	// Errs are the errors of the others; each names its node.
	Errs []error
}

// failure returns the error that says how all nodes voted.
func (b *backend) failure(v votes) *QuorumError {
	e := &QuorumError{Nodes: len(v)}
	e.Yes, e.No = v.count()
	for i, vote := range v {
		name := b.nodes[i].name
		switch {
		case settled(vote):
		case errors.Is(vote, context.DeadlineExceeded): // the core would take it for the end of its own context
			e.Errs = append(e.Errs, fmt.Errorf("node %s: %v", name, vote))
		default:
			e.Errs = append(e.Errs, fmt.Errorf("node %s: %w", name, vote))
		}
	}
	return e
}

// Error puts everything into one line.
func (e *QuorumError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d nodes said yes, %d are needed", e.Yes, e.Nodes, e.Nodes/2+1)
	if e.No > 0 {
		fmt.Fprintf(&b, "; %d said no", e.No)
	}
	for _, err := range e.Errs {
		b.WriteString("; ")
		b.WriteString(err.Error())
	}
	return b.String()
}

// Unwrap gives errors.Is and errors.As the errors of the nodes; those that refused only if without them there is
// no majority: otherwise a repetition may yet succeed.
func (e *QuorumError) Unwrap() []error {
	others := slices.DeleteFunc(slices.Clone(e.Errs), func(err error) bool { return errors.Is(err, driver.ErrRefused) })
	if refused := len(e.Errs) - len(others); refused > e.Nodes-(e.Nodes/2+1) {
		return e.Errs
	}
	return others
}
