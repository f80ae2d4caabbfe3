package file

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// record is what a ticket says.
type record struct {
	Name   []byte `json:"name"`
	Owner  []byte `json:"owner"`
	Weight int32  `json:"weight"`
	Limit  int32  `json:"limit"`
	Waits  bool   `json:"waits"` // it has waited: it stands where it will stay
	Held   bool   `json:"held"`  // it holds the name
	Stays  bool   `json:"stays"` // was released, and keeps the name taken until its time is over
	Token  int64  `json:"token"` // of a holder
	Since  int64  `json:"since"` // of its grant or, before it, of its arrival: time of day in nanoseconds
	Until  int64  `json:"until"` // when its time is over, see now
	Boot   string `json:"boot"`  // the boot in which that is meant
}

// over reports whether the time of the ticket was over at now.
func (r *record) over(boot string, now int64) bool { return r.Boot != boot || r.Until <= now }

// encode returns the line that says r.
func (r *record) encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // there is nothing in it that could fail
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text)
}

// decode returns what the first line says, or false if it is not whole: it may be written just now. What a longer line
// that stood there before has left is after the first.
func decode(b []byte) (r record, ok bool) {
	line, _, ended := bytes.Cut(b, []byte("\n"))
	if !ended || len(line) < 9 || line[8] != ' ' {
		return r, false
	}
	text := line[9:]
	if fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) != string(line[:8]) {
		return r, false
	}
	return r, json.Unmarshal(text, &r) == nil
}

// ticket is a claim's own file.
type ticket struct {
	d    *backend
	id   string // of the claim
	dir  string // of the queue
	file *os.File

	mu       sync.Mutex
	path     string
	record   record
	released bool      // by its owner
	looked   time.Time // when the queue had changed when the owner looked last who waits
	wanted   bool      // the owner has been told that others wait
}

// errBusy says that somebody else is looking at a new ticket before it was locked, and will remove it.
var errBusy = errors.New("file: the new ticket was taken for a dead one")

// newTicket makes a ticket for c that does not stand in its queue yet.
func (d *backend) newTicket(c *driver.Claim) (t *ticket, err error) {
	path := filepath.Join(d.fresh(), c.ID)
	var f *os.File
	for range 3 {
		f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err := d.folder.mkdirAll(d.fresh()); err != nil {
			return nil, failed(err)
		}
	}
	if err != nil {
		return nil, failed(err)
	}
	t = &ticket{d: d, id: c.ID, dir: d.queue(c.Name), file: f, path: path, record: record{
		Name: []byte(c.Name), Owner: []byte(c.Owner), Weight: c.Weight, Limit: c.Limit,
		Since: time.Now().UnixNano(), Until: now() + int64(d.ttl), Boot: d.boot,
	}}
	free, err := tryLock(f, true)
	if err == nil && !free {
		err = errBusy
	}
	if err == nil && d.folder.shared() {
		err = f.Chmod(d.folder.mode & 0o666)
	}
	if err == nil {
		_, err = f.WriteAt(t.record.encode(), 0)
	}
	if err != nil {
		return nil, errors.Join(failed(err), t.remove())
	}
	return t, nil
}

// update writes the ticket as change wants it, unless that says no, and returns until when it is good, by the clock of
// the Locker. It returns driver.ErrGone if the ticket was removed, or if its time was over before that was written:
// somebody may be about to remove it.
func (t *ticket) update(change func(r *record, now int64) bool) (until driver.Instant, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(change)
}

// write is update; t.mu is held.
func (t *ticket) write(change func(r *record, now int64) bool) (until driver.Instant, err error) {
	if t.released {
		return 0, driver.ErrGone
	}
	sent := t.d.clock.Now() // before the clock by which others look at it
	moment := now()
	r := t.record
	if change(&r, moment) {
		t.d.requests.Add(1)
		if _, err := t.file.WriteAt(r.encode(), 0); err != nil {
			return 0, failed(err)
		}
	} else {
		r = t.record
	}
	if now() >= t.record.Until {
		return 0, fmt.Errorf("%w: its time was over before it was extended", driver.ErrGone)
	}
	t.record = r
	if _, err := os.Lstat(t.path); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: its ticket was removed: %w", driver.ErrGone, err)
	} else if err != nil {
		return 0, failed(err)
	}
	return sent.Add(time.Duration(t.record.Until - moment)), nil
}

// extend makes the ticket good for ttl more, unless two thirds of that will be left at the next look. What it returns is
// what update does.
func (t *ticket) extend(ttl time.Duration) (driver.Instant, error) {
	return t.update(func(r *record, now int64) bool {
		if r.Until-now > int64(ttl)*2/3+int64(t.d.check) {
			return false
		}
		r.Until = now + int64(ttl)
		return true
	})
}

// touch tells those who watch the ticket that it has changed. They are not told what is written to it.
func (t *ticket) touch() {
	if info, err := t.file.Stat(); err == nil {
		_ = t.file.Chmod(info.Mode())
	}
}

// release removes the ticket. It returns driver.ErrGone if somebody else has, and nil if it was released before.
func (t *ticket) release() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leave()
}

// leave is release; t.mu is held.
func (t *ticket) leave() error {
	if t.released {
		return nil
	}
	err := os.Remove(t.path)
	if ignoreMissing(err) != nil {
		return failed(err)
	}
	t.close()
	if err != nil {
		return fmt.Errorf("%w: its ticket was removed: %w", driver.ErrGone, err)
	}
	return nil
}

// remove removes the ticket if it is still there.
func (t *ticket) remove() error {
	return ignoreGone(t.release())
}

func ignoreGone(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// stay makes the ticket one that needs no process, until its time is over after d. What it returns is what release
// does.
func (t *ticket) stay(d time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released || d <= 0 {
		return t.leave()
	}
	_, err := t.write(func(r *record, now int64) bool {
		r.Stays, r.Until = true, now+int64(d)
		return true
	})
	switch {
	case err == nil:
		t.close() // which tells those who wait
	case errors.Is(err, driver.ErrGone):
		return cmp.Or(ignoreGone(t.leave()), err)
	}
	return err
}

// close ends the owner's part in the ticket; t.mu is held.
func (t *ticket) close() {
	t.released = true
	_ = t.file.Close()
	_ = os.Remove(t.dir) // fails unless it is empty
}

// removeIfDead removes a file on which nobody has a flock.
func removeIfDead(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	free, err := tryLock(f, false)
	if err == nil && free {
		err = ignoreMissing(os.Remove(path))
	}
	return err
}

// readAll returns what the file says; a ticket is a few thousand bytes at most.
func readAll(f *os.File) ([]byte, error) {
	b := make([]byte, 8192)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}
