//go:build unix

package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed80cd6120/locker/internal/cli/finding"
)

// Checks examine the servers of a URL. There is one for each scheme that a program knows.
type Checks map[string]finding.Check

// doctorCommand is "locker doctor".
type doctorCommand struct{}

func (c *doctorCommand) flags() []flag { return nil }

func (c *doctorCommand) arguments(args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// run says what about the servers breaks a promise or may break one; it exits with 1 if something does.
func (c *doctorCommand) run(i *invocation) error {
	// First a lock, because it makes the directory of file://.
	tried, lockErr := i.tryLock()
	if lockErr != nil && failureOf(lockErr).status == exitUsage {
		return lockErr
	}
	ctx, cancel := i.asking()
	defer cancel()
	findings, err := i.checks[i.scheme()](ctx, i.url)
	if err != nil {
		return err
	}
	findings = append(findings, tried)
	if i.json {
		if err := writeJSON(i.out, findings); err != nil {
			return err
		}
	} else {
		i.writeFindings(findings)
	}
	if finding.Worst(findings) == finding.Broken {
		return exit(exitNo)
	}
	return nil
}

// writeFindings writes three lines for each finding, one if all is well.
func (i *invocation) writeFindings(findings []finding.Finding) {
	for _, f := range findings {
		fmt.Fprintf(i.out, "%-7s %s: %s\n", f.Severity, f.Server, f.What)
		if f.Means != "" {
			fmt.Fprintf(i.out, "        means: %s\n", f.Means)
		}
		if f.Do != "" {
			fmt.Fprintf(i.out, "        do: %s\n", f.Do)
		}
	}
}

// tryLock takes a lock that nobody else wants and releases it: that shows permissions as well. Beside the finding it
// returns the error, if any.
func (i *invocation) tryLock() (finding.Finding, error) {
	l := finding.List{Server: i.scheme()}
	err := i.lockOnce(fmt.Sprintf("locker-doctor/%d/%d", os.Getpid(), time.Now().UnixNano()))
	if err != nil {
		l.Broken(fmt.Sprintf("a lock was tried: %v", err), "no lock can be taken",
			"if it is a matter of permissions give the user of the URL those that the backend's package documents")
	} else {
		l.OK("a lock can be taken, seen and released")
	}
	return l.Findings[0], err
}

func (i *invocation) lockOnce(name string) error {
	l, closeLocker, err := i.open()
	if err != nil {
		return err
	}
	defer closeLocker()
	ctx, cancel := i.asking()
	defer cancel()
	lock, err := l.TryAcquire(ctx, name)
	if err != nil {
		return err
	}
	_, err = i.inspect(l, name)
	return errors.Join(err, lock.Release(ctx))
}
