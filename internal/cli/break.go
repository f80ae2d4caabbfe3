//go:build unix

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/cli/job"
)

// breakCommand is "locker break".
type breakCommand struct {
	oneName
	token int64
	id    string
	yes   bool
}

func (c *breakCommand) flags() []flag {
	return []flag{
		{"token", "", "T", "the holder's token, as inspect shows it", number(&c.token)},
		{"id", "", "ID", "the ID of a holder or waiter, as inspect shows it, instead of a token", text(&c.id)},
		{"yes", "y", "", "do not ask", on(&c.yes)},
	}
}

func (c *breakCommand) arguments(args []string) error {
	if (c.token == 0) == (c.id == "") {
		return errors.New("give --token or --id, which \"locker inspect\" shows")
	}
	return c.oneName.arguments(args)
}

// run takes the name from one holder, or the place from one waiter, and from nobody who came since.
func (c *breakCommand) run(i *invocation) error {
	l, closeLocker, err := i.open()
	if err != nil {
		return err
	}
	defer closeLocker()
	p, err := c.find(i, l)
	if err != nil {
		return err
	}
	if !c.yes {
		if err := c.ask(i, p); err != nil {
			return err
		}
	}
	ctx, cancel := i.asking()
	defer cancel()
	err = locker.Evict(ctx, l, p)
	if errors.Is(err, locker.ErrNotFound) {
		return c.gone()
	}
	if err != nil {
		return err
	}
	if i.json {
		return writeJSON(i.out, map[string]any{"name": c.name, "broken": positionOf(p)})
	}
	fmt.Fprintf(i.out, "taken from %s\n", printable(p.Owner))
	return nil
}

// find returns the holder with the token, or the holder or waiter with the ID.
func (c *breakCommand) find(i *invocation, l locker.Locker) (locker.Position, error) {
	positions, err := i.inspect(l, c.name)
	if err != nil {
		return locker.Position{}, err
	}
	meant := func(p locker.Position) bool { return p.ID == c.id }
	if c.id == "" {
		meant = func(p locker.Position) bool { return p.Held && p.Token == c.token }
	}
	at := slices.IndexFunc(positions, meant)
	if at < 0 {
		return locker.Position{}, c.gone()
	}
	if slices.IndexFunc(positions[at+1:], meant) >= 0 {
		return locker.Position{}, usage("several hold %q with token %d: give --id, which \"locker inspect\" shows", c.name, c.token)
	}
	return positions[at], nil
}

// gone returns the failure that nobody is there any more from whom to take the name.
func (c *breakCommand) gone() error {
	who := fmt.Sprintf("token %d", c.token)
	if c.id != "" {
		who = "ID " + c.id
	}
	return &failure{exitNo, fmt.Sprintf("nobody has %q with %s (any more): nothing was done, see \"locker inspect\"", c.name, who)}
}

// ask shows from whom the name is about to be taken and asks whether to do so. The error is a *failure if the answer
// is no.
func (c *breakCommand) ask(i *invocation, p locker.Position) error {
	if !job.IsTerminal(os.Stdin) {
		return usage("there is no terminal to ask: give --yes")
	}
	fmt.Fprintln(i.errs, "This takes", printable(c.name), "from")
	q := queueOf(c.name, []locker.Position{p})
	table(i.errs, q.table(time.Now())...)
	fmt.Fprint(i.errs, "It is told within a second; until then two may be at work. Take it? [y/N] ")
	answers := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answers <- line
	}()
	select {
	case line := <-answers:
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			return &failure{exitNo, "nothing was done"}
		}
		return nil
	case <-i.ctx.Done():
		fmt.Fprintln(i.errs)
		return context.Cause(i.ctx)
	}
}
