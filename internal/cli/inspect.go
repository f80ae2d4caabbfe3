//go:build unix

package cli

import (
	"fmt"
	"time"
)

// inspectCommand is "locker inspect".
type inspectCommand struct{ oneName }

func (c *inspectCommand) flags() []flag { return nil }

// run shows the holders and waiters of a name.
func (c *inspectCommand) run(i *invocation) error {
	l, closeLocker, err := i.open()
	if err != nil {
		return err
	}
	defer closeLocker()
	positions, err := i.inspect(l, c.name)
	if err != nil {
		return err
	}
	q := queueOf(c.name, positions)
	switch {
	case i.json:
		return writeJSON(i.out, q)
	case len(positions) == 0:
		fmt.Fprintf(i.out, "%s is free\n", printable(c.name))
	default:
		table(i.out, q.table(time.Now())...)
	}
	return nil
}
