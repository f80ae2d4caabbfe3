//go:build unix

package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/cli/job"
)

// watchCommand is "locker watch".
type watchCommand struct {
	oneName
	interval *time.Duration
}

func newWatch() command {
	interval := time.Second
	return &watchCommand{interval: &interval}
}

func (c *watchCommand) flags() []flag {
	return []flag{{"interval", "", "TIME", "how often to ask the servers (1s)", duration(&c.interval)}}
}

// run shows a name until a signal comes: in a terminal as a table that is drawn again, elsewhere in a line for
// each change.
func (c *watchCommand) run(i *invocation) error {
	if *c.interval < 10*time.Millisecond {
		return usage("an interval of %v is too short: give 10ms at least", *c.interval)
	}
	l, closeLocker, err := i.open()
	if err != nil {
		return err
	}
	defer closeLocker()
	positions, err := i.inspect(l, c.name)
	if err != nil {
		return err // at first; later outages are waited out
	}
	show := i.changes(c.name)
	if job.IsTerminal(os.Stdout) && !i.json {
		show = i.draw(c.name)
	}
	ticker := time.NewTicker(*c.interval)
	defer ticker.Stop()
	for {
		show(positions, err)
		select {
		case <-ticker.C:
		case <-i.ctx.Done():
			return context.Cause(i.ctx)
		}
		positions, err = i.inspect(l, c.name)
	}
}

// draw returns a function that draws the queue over what it has drawn before.
func (i *invocation) draw(name string) func([]locker.Position, error) {
	const clearScreen = "\x1b[H\x1b[2J"
	return func(positions []locker.Position, err error) {
		var screen strings.Builder
		now := time.Now()
		fmt.Fprintf(&screen, "%s%s  %s\n\n", clearScreen, printable(name), now.Format(time.TimeOnly))
		switch {
		case err != nil:
			fmt.Fprintln(&screen, err)
		case len(positions) == 0:
			fmt.Fprintln(&screen, "free")
		default:
			table(&screen, queueOf(name, positions).table(now)...)
		}
		fmt.Fprint(i.out, screen.String())
	}
}

// change is what happened between two looks at a queue, as JSON has it.
type change struct {
	Time     time.Time `json:"time"`
	Name     string    `json:"name"`
	Event    string    `json:"event"` // "waits", "holds", "gone", "error"
	Position *position `json:"position,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// changes returns a function that writes a line for each change since it was called last.
func (i *invocation) changes(name string) func([]locker.Position, error) {
	before := map[string]locker.Position{}
	return func(positions []locker.Position, err error) {
		if i.ctx.Err() != nil {
			return
		}
		now := time.Now()
		if err != nil {
			i.writeChange(change{Time: now, Name: name, Event: "error", Error: err.Error()})
			return
		}
		after := map[string]locker.Position{}
		for _, p := range positions {
			after[p.ID] = p
		}
		// Who has gone first, for whom there is room after that.
		for id, p := range before {
			if _, there := after[id]; !there {
				i.writePosition(now, "gone", p)
			}
		}
		for _, p := range positions {
			if old, known := before[p.ID]; known && old.Held == p.Held && old.Weight == p.Weight {
				continue
			}
			event := "waits"
			if p.Held {
				event = "holds"
			}
			i.writePosition(now, event, p)
		}
		before = after
	}
}

func (i *invocation) writePosition(now time.Time, event string, p locker.Position) {
	out := positionOf(p)
	i.writeChange(change{Time: now, Name: p.Name, Event: event, Position: &out})
}

func (i *invocation) writeChange(c change) {
	if i.json {
		_ = writeJSON(i.out, c)
		return
	}
	line := []string{c.Time.Format(time.RFC3339), printable(c.Name), c.Event}
	if c.Position != nil {
		line = append(line, c.Position.Kind, printable(c.Position.Owner))
		if c.Position.Token != 0 {
			line = append(line, fmt.Sprintf("token %d", c.Position.Token))
		}
	}
	if c.Error != "" {
		line = append(line, c.Error)
	}
	fmt.Fprintln(i.out, strings.Join(line, "  "))
}
