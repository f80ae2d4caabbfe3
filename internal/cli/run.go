//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/cli/job"
)

// runCommand is "locker run".
type runCommand struct {
	programFlags
	holdFlags
	nonblock bool
	timeout  *time.Duration
	shared   bool
	k, n     int // of --permits, or 0
	atLeast  *time.Duration
	conflict int
	quiet    bool
}

func newRun() command { return &runCommand{conflict: exitNotAcquired} }

func (c *runCommand) flags() []flag {
	return append([]flag{
		{"nonblock", "n", "", "do not wait: exit with 75 if the name is not free", on(&c.nonblock)},
		{"timeout", "w", "TIME", "wait for so long at most, then exit with 75", duration(&c.timeout)},
		{"conflict-exit-code", "E", "N", "exit with this instead of 75", number(&c.conflict)},
		{"quiet", "q", "", "say nothing when the name is not free", on(&c.quiet)},
		{"shared", "s", "", "hold the name together with other shared holders", on(&c.shared)},
		{"permits", "", "K/N", "take K of the N permits that the name stands for", permits(&c.k, &c.n)},
		{"at-least", "", "TIME", "keep the name taken for so long from its acquisition, also if the command ends before", duration(&c.atLeast)},
	}, append(c.holdFlags.flags(), c.programFlags.flags()...)...)
}

// run runs a command while holding a name.
func (c *runCommand) run(i *invocation) error {
	if c.conflict < 0 || c.conflict > 255 {
		return usage("exit code %d is not between 0 and 255", c.conflict)
	}
	result, err := c.hold(i)
	var f *failure
	switch {
	case errors.As(err, &f) && f.status == exitNotAcquired:
		text := f.text
		if c.quiet {
			text = ""
		}
		return &failure{c.conflict, text}
	case err != nil:
		return err
	case result.Lost:
		return exit(exitLost)
	}
	return exit(result.Status)
}

// hold takes the name, runs the command and releases the name.
func (c *runCommand) hold(i *invocation) (job.Result, error) {
	program, err := c.program()
	if err != nil {
		return job.Result{}, err
	}
	opts, err := c.options(i)
	if err != nil {
		return job.Result{}, err
	}
	l, closeLocker, err := i.open(opts...)
	if err != nil {
		return job.Result{}, err
	}
	defer closeLocker()
	lock, err := acquire(i.ctx, l, c.name, c.waiting(), c.kind()...)
	if err != nil {
		return job.Result{}, err
	}
	return i.runUnder(lock, program, &c.holdFlags)
}

// waiting returns for how long to wait.
func (c *runCommand) waiting() waiting {
	if c.nonblock || c.timeout != nil && *c.timeout == 0 {
		return waiting{tries: true}
	}
	return waiting{limit: c.timeout}
}

// kind returns the options of the acquisition.
func (c *runCommand) kind() []locker.AcquireOption {
	var opts []locker.AcquireOption
	if c.shared {
		opts = append(opts, locker.Shared())
	}
	if c.n != 0 {
		opts = append(opts, locker.Permits(c.k, c.n))
	}
	if c.atLeast != nil {
		opts = append(opts, locker.AtLeast(*c.atLeast))
	}
	return opts
}

// runUnder runs the command under a lock and releases it.
func (i *invocation) runUnder(lock *locker.Lock, program *job.Command, flags *holdFlags) (job.Result, error) {
	program.Grace = flags.grace(lock)
	program.Env = append(environment(),
		"LOCKER_NAME="+lock.Name(),
		fmt.Sprintf("LOCKER_TOKEN=%d", lock.Token()),
		"LOCKER_OWNER="+flags.owner(i))
	program.Stopping = func(why string) { i.say("warning", fmt.Sprintf("%q: %s", lock.Name(), why)) }
	result, err := program.Run(lock, i.signals)

	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if released := lock.Release(ctx); released != nil && !result.Lost {
		i.say("warning", fmt.Sprintf("%v: the name may stay taken for the TTL", released))
	}
	return result, err
}

// environment returns the environment of this process without what runUnder adds.
func environment() []string {
	var env []string
	for _, variable := range os.Environ() {
		key, _, _ := strings.Cut(variable, "=")
		switch key {
		case "LOCKER_NAME", "LOCKER_TOKEN", "LOCKER_OWNER":
		default:
			env = append(env, variable)
		}
	}
	return env
}

// programFlags say what to run under which name.
type programFlags struct {
	name string
	args []string
	line string
}

func (f *programFlags) flags() []flag {
	return []flag{{"command", "c", "LINE", "run this line with sh instead of a command", text(&f.line)}}
}

func (f *programFlags) arguments(args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("give a name")
	case f.line != "" && len(args) > 1:
		return errors.New("give a command after -- or a line with -c, not both")
	case f.line != "":
		f.args = []string{"sh", "-c", f.line}
	case len(args) == 1:
		return errors.New("give a command to run after --, or a line with -c")
	default:
		f.args = args[1:]
	}
	f.name = args[0]
	return nil
}

// program returns the command to run, which is known to exist.
func (f *programFlags) program() (*job.Command, error) {
	path, err := job.Find(f.args[0])
	if err != nil {
		return nil, err
	}
	return &job.Command{Path: path, Args: f.args}, nil
}
