package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker/driver"
)

// QuorumError says that no majority of the nodes said yes, and what each of them said instead.
// errors.Is and errors.As look into the errors of all nodes.
type QuorumError struct {
	// Nodes is how many there are, Yes how many said yes and No how many that another has the
	// lock. The others gave no usable answer, or none yet.
	Nodes, Yes, No int
	// Errs are the errors of the others; each names its node.
	Errs []error
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
