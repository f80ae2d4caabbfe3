//go:build unix

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/cli/job"
)

// Exit statuses beside those of the command that was run. Those from 64 on are of sysexits.h, or near.
const (
	exitNo          = 1  // the answer is no: nobody to take the name from, a finding that breaks a promise
	exitUsage       = 64 // EX_USAGE
	exitUnavailable = 69 // EX_UNAVAILABLE
	exitNotAcquired = 75 // EX_TEMPFAIL
	exitLost        = 76
)

// failure is an error with its exit status.
type failure struct {
	status int
	text   string // empty: say nothing
}

func (f *failure) Error() string { return f.text }

// usage returns the failure of a command line that cannot be honoured.
func usage(format string, args ...any) error {
	return &failure{exitUsage, fmt.Sprintf(format, args...)}
}

// exit returns what makes this process exit with a status, without a word; nil if it is 0.
func exit(status int) error {
	if status == 0 {
		return nil
	}
	return &failure{status: status}
}

// report writes an error in one line, if there is one, and returns the exit status.
func (i *invocation) report(err error) int {
	if err == nil {
		return 0
	}
	f := failureOf(err)
	if f.text != "" {
		i.say("error", f.text)
	}
	return f.status
}

// say writes a line for people, or an object with the line in it.
func (i *invocation) say(level, text string) {
	text = strings.ReplaceAll(text, "\n", " ")
	if i.json {
		line, _ := json.Marshal(map[string]string{"level": level, "message": text})
		fmt.Fprintf(i.errs, "%s\n", line)
		return
	}
	if level != "error" {
		text = level + ": " + text
	}
	fmt.Fprintf(i.errs, "locker: %s\n", strings.TrimPrefix(text, "locker: "))
}

// errNoAnswer is the cause of a context that ended because the servers did not answer.
var errNoAnswer = errors.New("no answer")

// failureOf returns what an error means for whoever called this program: an exit status and what to do.
func failureOf(err error) *failure {
	var f *failure
	var signalled *job.SignalError
	var start *job.StartError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &signalled):
		return &failure{status: 128 + int(signalled.Signal)}
	case errors.As(err, &start):
		return &failure{start.Status, start.Error()}
	case errors.Is(err, locker.ErrInvalidOption), errors.Is(err, locker.ErrInvalidName), errors.Is(err, locker.ErrUnsupported):
		return &failure{exitUsage, err.Error()}
	}
	return &failure{exitUnavailable, fmt.Sprintf("%v: check --url or LOCKER_URL, and see \"locker doctor\"", err)}
}

// onlyTime reports whether err says no more than that the time of a context was over.
func onlyTime(err error) bool {
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		return onlyTime(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range wrapper.Unwrap() {
			if !onlyTime(err) {
				return false
			}
		}
		return true
	}
	return err == context.DeadlineExceeded
}
