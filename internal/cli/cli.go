//go:build unix

// Package cli is the command line of locker.
package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/cli/job"
)

// invocation is the program being run.
type invocation struct {
	url    string
	json   bool
	checks Checks
	out    io.Writer
	errs   io.Writer

	ctx     context.Context // ends when a signal ends this process
	signals *job.Signals
}

// defaultURL is of the locks in a folder of this user's on this machine.
const defaultURL = "file://"

// Main runs the command line args, the first of which is this program's name; it returns what to exit with. checks
// has the schemes of the URLs that this program knows.
func Main(args []string, checks Checks) int {
	i := &invocation{url: os.Getenv("LOCKER_URL"), checks: checks, out: os.Stdout, errs: os.Stderr}
	if i.url == "" {
		i.url = defaultURL
	}
	chosen, err := i.parse(args[1:])
	if err == nil && chosen != nil {
		err = i.checkScheme()
	}
	if err != nil || chosen == nil {
		return i.report(err)
	}
	i.ctx, i.signals = job.CatchSignals(context.Background())
	err = chosen.run(i)
	if known := (*failure)(nil); err != nil && i.ctx.Err() != nil && !errors.As(err, &known) {
		err = context.Cause(i.ctx)
	}
	return i.report(err)
}

// scheme returns the scheme of the URL.
func (i *invocation) scheme() string {
	scheme, _, _ := strings.Cut(i.url, ":")
	return strings.ToLower(scheme)
}

// checkScheme returns an error that lists the schemes unless this program knows that of the URL.
func (i *invocation) checkScheme() error {
	if _, known := i.checks[i.scheme()]; known {
		return nil
	}
	return usage("the URL begins with none of %s://", strings.Join(slices.Sorted(maps.Keys(i.checks)), "://, "))
}

// contactTimeout is how long the servers may take for their first answer. After that a command that holds or awaits
// a name waits outages out.
const contactTimeout = 10 * time.Second

// closeTimeout bounds how long the end of this process waits for the servers.
const closeTimeout = 5 * time.Second

// inspect returns the holders and waiters of a name.
func (i *invocation) inspect(l locker.Locker, name string) ([]locker.Position, error) {
	ctx, cancel := i.asking()
	defer cancel()
	return locker.Inspect(ctx, l, name)
}

// open returns the Locker of the URL, and a function that closes it.
func (i *invocation) open(opts ...locker.Option) (l locker.Locker, closeLocker func(), err error) {
	ctx, cancel := i.asking()
	defer cancel()
	l, err = locker.Open(ctx, i.url, opts...)
	if err != nil {
		return nil, nil, err
	}
	return l, func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = l.Close(ctx) // what it has to say of a lock its release has said
	}, nil
}

// asking returns a context for one question to the servers.
func (i *invocation) asking() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(i.ctx, contactTimeout, errNoAnswer)
}
