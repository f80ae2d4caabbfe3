//go:build unix

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/seed80cd6120/locker"
)

// holdFlags are the flags of what holds a name.
type holdFlags struct {
	ttl, term *time.Duration
	ownerText string
}

func (f *holdFlags) flags() []flag {
	return []flag{
		{"ttl", "", "TIME", "how long the name stays taken after its holder has died (15s, with file:// 1m)", duration(&f.ttl)},
		{"grace", "", "TIME", "how long before the lock would be lost the command gets SIGTERM (a third of the TTL, at most 5s)", duration(&f.term)},
		{"owner", "", "TEXT", "what others see of the holder (host and process number)", text(&f.ownerText)},
	}
}

const (
	// localTTL is the TTL of locks in files, unless told otherwise. Whoever dies frees them at once: it is for who is
	// stopped. Waiters write at a third of it, so that many who wait cost less if it is long.
	localTTL = time.Minute

	maxGrace   = 5 * time.Second
	graceShare = 3 // the grace is this part of the TTL, unless told otherwise
)

// options returns the options for the Locker.
func (f *holdFlags) options(i *invocation) ([]locker.Option, error) {
	var opts []locker.Option
	if f.ttl == nil && i.scheme() == "file" && i.parameter("ttl") == "" {
		opts = append(opts, locker.WithTTL(localTTL))
	}
	if f.ttl != nil {
		opts = append(opts, locker.WithTTL(*f.ttl))
		if f.term != nil && *f.term > *f.ttl/2 {
			return nil, usage("a grace of %v needs a TTL of twice that at least: give --ttl %v", *f.term, 2**f.term)
		}
	}
	if f.ownerText != "" {
		opts = append(opts, locker.WithOwner(f.ownerText))
	}
	return opts, nil
}

// grace returns the grace of a lock that was just granted.
func (f *holdFlags) grace(lock *locker.Lock) time.Duration {
	left := time.Until(lock.Deadline())
	if f.term == nil {
		return min(left/graceShare, maxGrace)
	}
	return min(*f.term, left/2)
}

// owner returns the text that others see: of the flag, of the URL, or the one that package locker takes.
func (f *holdFlags) owner(i *invocation) string {
	if f.ownerText != "" {
		return f.ownerText
	}
	if owner := i.parameter("owner"); owner != "" {
		return owner
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// parameter returns a parameter of the URL, "" if it has none of that name.
func (i *invocation) parameter(name string) string {
	u, err := locker.ParseURL(i.url)
	if err != nil {
		return ""
	}
	return u.Params[name]
}

// waiting says for how long to wait for a name.
type waiting struct {
	tries bool           // not at all
	limit *time.Duration // nil: for ever
}

// acquire takes the name. The servers must answer soon the first time; then it waits as it is told to, through
// outages too. The error is a *failure if the name is another's.
func acquire(ctx context.Context, l locker.Locker, name string, w waiting, opts ...locker.AcquireOption) (*locker.Lock, error) {
	if w.limit != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *w.limit)
		defer cancel()
	}
	contact, cancel := context.WithTimeoutCause(ctx, contactTimeout, errNoAnswer)
	defer cancel()
	lock, err := l.TryAcquire(contact, name, opts...)
	taken := errors.Is(err, locker.ErrNotAcquired)
	if taken && !w.tries {
		lock, err = l.Acquire(ctx, name, opts...)
		taken = err != nil && onlyTime(err)
	}
	switch {
	case taken && w.tries:
		return nil, notAcquired("%q is held or waited for: wait with -w, or see who with %q", name, "locker inspect")
	case taken:
		return nil, notAcquired("%q was not free within %v: wait longer with -w, or see who has it with %q", name, *w.limit, "locker inspect")
	}
	return lock, err
}

// notAcquired returns the failure of a name that is another's.
func notAcquired(format string, args ...any) error {
	return &failure{exitNotAcquired, fmt.Sprintf(format, args...)}
}
