package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// backend is the driver.
type backend struct {
	folder folder
	boot   string // of the machine; times of another boot are over
	clock  driver.Clock
	ttl    time.Duration // of tickets that wait
	check  time.Duration
	tokens tokens
	watch  watcher

	sweeping sync.Once
	life     context.Context // ends with Close
	end      context.CancelFunc
	stopped  sync.WaitGroup

	requests atomic.Int64 // lists read and tickets written, for tests
}

func (d *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "file", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true,
		Check: d.check,
	}
}

// Close stops the goroutines.
func (d *backend) Close(context.Context) error {
	d.sweeping.Do(func() {}) // from now on none begins
	d.end()
	d.watch.close()
	d.stopped.Wait()
	return nil
}

// queues returns the directory with those of all names.
func (d *backend) queues() string { return filepath.Join(d.folder.path, "names") }

// fresh returns the directory of the tickets that do not stand in a queue yet.
func (d *backend) fresh() string { return filepath.Join(d.folder.path, "new") }

// queue returns the directory of the tickets of name.
func (d *backend) queue(name string) string { return filepath.Join(d.queues(), queueName(name)) }

// queueName returns a file name for a name. Names are hashed because they may be longer than a file's name, and because
// there are file systems that do not tell "a" from "A".
func queueName(name string) string {
	hash := sha256.Sum256([]byte(name))
	return hex.EncodeToString(hash[:])
}

// failed returns err, wrapping [driver.ErrRefused] if trying again is in vain.
func failed(err error) error {
	if errors.Is(err, fs.ErrPermission) || isReadOnly(err) {
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}

// ignoreMissing returns nil for an error that says that a file is not there.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweepInterval is how often a Locker looks for what the dead have left, unless another just has.
const sweepInterval = time.Minute

// startSweeping begins, with the first acquisition, to remove what the dead have left under names that nobody asks for.
func (d *backend) startSweeping() {
	d.sweeping.Do(func() {
		d.stopped.Go(func() {
			for timer := time.NewTicker(sweepInterval); ; {
				select {
				case <-d.life.Done():
					timer.Stop()
					return
				case <-timer.C:
					d.sweepAfter(sweepInterval / 2)
				}
			}
		})
	})
}

// sweepAfter sweeps if no process has for that long. What cannot be removed is left to the next.
func (d *backend) sweepAfter(interval time.Duration) {
	mark := filepath.Join(d.folder.path, "swept")
	if info, err := os.Stat(mark); err == nil && time.Since(info.ModTime()).Abs() < interval {
		return
	}
	_ = os.WriteFile(mark, []byte("\n"), 0o666) // it may be another user's
	d.sweep()
}

// sweep removes tickets whose time is over or whose process is dead, until the Locker is closed.
func (d *backend) sweep() {
	_ = d.names(d.life, "", func(string, error) bool { return true }) // to look at them removes the dead
	names, _ := readNames(d.fresh())
	for _, name := range names {
		_ = removeIfDead(filepath.Join(d.fresh(), name))
	}
}
