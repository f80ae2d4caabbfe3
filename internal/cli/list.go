//go:build unix

package cli

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seed80cd6120/locker"
)

// listCommand is "locker list".
type listCommand struct{ prefix string }

func (c *listCommand) flags() []flag { return nil }

func (c *listCommand) arguments(args []string) error {
	switch len(args) {
	case 0:
		return nil
	case 1:
		c.prefix = args[0]
		return nil
	}
	return fmt.Errorf("unexpected argument %q", args[1])
}

// run lists the names that are held or waited for.
func (c *listCommand) run(i *invocation) error {
	l, closeLocker, err := i.open()
	if err != nil {
		return err
	}
	defer closeLocker()
	ctx, cancel := i.asking()
	defer cancel()
	var names []string
	for name, err := range locker.Names(ctx, l, c.prefix) {
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	slices.Sort(names)
	queues := []queue{}
	for _, name := range names {
		positions, err := i.inspect(l, name)
		if err != nil {
			return err
		}
		if len(positions) > 0 {
			queues = append(queues, queueOf(name, positions))
		}
	}
	if i.json {
		return writeJSON(i.out, queues)
	}
	if len(queues) > 0 {
		table(i.out, listTable(queues, time.Now())...)
	}
	return nil
}

// listTable returns one row for each holder, or one for a name that nobody holds.
func listTable(queues []queue, now time.Time) [][]string {
	rows := [][]string{{"NAME", "KIND", "OWNER", "TOKEN", "SINCE", "LEFT", "WAITING"}}
	for _, q := range queues {
		name, waiting := printable(q.Name), strconv.Itoa(len(q.Waiters))
		if len(q.Holders) == 0 {
			rows = append(rows, []string{name, "-", "-", "-", "-", "-", waiting})
		}
		for _, p := range q.Holders {
			row := p.row(now)
			rows = append(rows, append(append([]string{name}, row[:len(row)-1]...), waiting))
		}
	}
	return rows
}
