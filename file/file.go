// Package file takes locks between the processes of one machine. It needs no server, only a directory.
//
//	l, err := file.New("/run/myapp/locks")
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// # What is in the directory
//
// Those who want a name queue up in a directory for it, each with a file, its ticket:
//
//	names/<SHA-256 of the name>/<number>-<ID>.1    a claim; number is when it came, 1 the version of the format
//	new/<ID>                                       a ticket that does not stand in its queue yet
//	clock/<token>                                  its name is the last token given
//	swept                                          its time is when the dead were removed last
//
// A ticket holds one line, a checksum and JSON: the name, the owner's text, the kind, whether it holds the
// name, its token, and until when it is good. Its process keeps an exclusive flock on it. A claim holds the name when
// its weight and those of all tickets with smaller numbers are together no more than its limit.
// What is not such a ticket counts as an exclusive claim: what a later version writes there is respected, and what
// does not belong there has to be removed by hand.
//
// There is no lock around all this that a process could be stopped in, or die in. A ticket is renamed into its queue
// when it is complete. If there is one with a greater number then, whose owner may not have seen it, it moves behind
// that one. So of two tickets the later has always seen the earlier. Then it stays where it is, and says so if it has
// to wait. A token is taken by renaming the one file in clock: of those who try at the same time one succeeds, and the
// others try again.
//
// # Death, and the TTL
//
// The kernel drops the flock when a process dies, however it dies. A ticket without flock is dead, and whoever looks
// removes it: the name is free at once. A process that is stopped keeps its flock, so a ticket also says until when it
// is good, by a clock that all processes share and that goes on while the machine sleeps (on Linux CLOCK_BOOTTIME;
// elsewhere the time of day, which must not be set while locks are held). Holders and waiters extend it at a third of
// the TTL or sooner; one that is over is removed. An extension counts only if it was written before the old time was over, so
// that the paused holder and the one who removes its ticket never both succeed, and the context of the lock has ended
// before.
//
// A child that a holder started does not keep the lock: the files are closed when another program is executed.
//
// # Waiting
//
// On Linux waiters are woken by inotify, each by the ticket whose end it needs: when that is removed, and when its
// process dies. An idle waiter extends its ticket at a third of the TTL and looks whether the one ahead did. On other
// systems, and where the user has no inotify instances left (fs.inotify.max_user_instances), waiters look ten times a
// second.
//
// # What it cannot do
//
// Network file systems and FUSE are refused: their locks and notifications cannot be relied on. All processes must
// share the kernel and its time (containers with a time namespace of their own do not). Each claim takes a file
// descriptor. A process that is killed leaves its tickets until someone asks for the name, or until a Locker, which
// looks once a minute, removes them. A power cut may lose tokens that were given last; tokens still rise, because they
// are never less than the time of day in microseconds, unless that is set back as well. The file systems of other
// systems than Linux have not been tried. Windows has no flock, and New returns an error.
//
// Who locks needs the permission to read and write the directory, which New makes for its user alone. What is made in it
// gets its permissions, so one that several users may write to is for them all; if only a group may, it needs the setgid bit.
// Whoever may write can take any lock away.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed80cd6120/locker"
)

// New returns a Locker whose locks are known to all processes that give the same directory, which is made if it is
// not there. The error is a *locker.Error: the directory cannot be used, or it is on a network file system.
func New(dir string, opts ...locker.Option) (locker.Locker, error) {
	cfg, err := locker.NewConfig[struct{}]("file", nil, opts...)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, locker.InvalidOption("file", errors.New("no directory"))
	}
	d, err := open(dir, cfg)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: "file", Err: err}
	}
	return locker.New(d, cfg)
}

// DefaultDir returns the directory of the user's own that programs share which have no other: locker in the user's
// cache directory. It is the same in a terminal, in cron and in a service, which $XDG_RUNTIME_DIR is not.
func DefaultDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("file: no directory for locks: %w", err)
	}
	return filepath.Join(dir, "locker"), nil
}

// open makes what has to be there and tries whether it can be used.
func open(dir string, cfg *locker.Config) (*backend, error) {
	if !supported {
		return nil, fmt.Errorf("%w: locks in files on this system", errors.ErrUnsupported)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	d := &backend{
		boot: boot, clock: cfg.Clock, ttl: cfg.TTL, check: min(cfg.TTL/3, 500*time.Millisecond),
	}
	d.life, d.end = context.WithCancel(context.Background())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	d.folder = folder{dir, info.Mode() & (fs.ModePerm | fs.ModeSetgid)}
	d.tokens = tokens{folder: d.folder, dir: filepath.Join(dir, "clock")}
	if kind := networkFileSystem(dir); kind != "" {
		return nil, fmt.Errorf("%s is on %s: locks need a local file system", dir, kind)
	}
	if _, err := d.tokens.read(); err != nil {
		return nil, err
	}
	for _, sub := range []string{d.fresh(), d.queues()} {
		if err := d.folder.mkdirAll(sub); err != nil {
			return nil, err
		}
	}
	return d, nil
}
