package file

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// entry is a ticket in a queue, as whoever looks sees it.
type entry struct {
	path   string
	number int64  // its place
	id     string // of the claim, or the name of a file that is not understood
	known  bool   // it is of this version

	weight, limit int32
	record        record // empty if it cannot be read
}

const (
	digits  = 19 // of a number
	version = ".1"
)

func fileName(number int64, id string) string {
	return fmt.Sprintf("%0*d-%s%s", digits, number, id, version)
}

// newEntry makes an entry of a file's name. One that is not understood stands where its number says, or ahead of all.
func newEntry(dir, name string) entry {
	e := entry{path: filepath.Join(dir, name), id: name, weight: driver.All, limit: driver.All}
	if len(name) < digits {
		return e
	}
	n, err := strconv.ParseUint(name[:digits], 10, 63)
	if err != nil {
		return e
	}
	e.number = int64(n)
	id, is := strings.CutPrefix(name[digits:], "-")
	if id, ok := strings.CutSuffix(id, version); is && ok && len(id) == 32 {
		e.id, e.known = id, true
	}
	return e
}

func (e entry) compare(o entry) int {
	return cmp.Or(cmp.Compare(e.number, o.number), cmp.Compare(e.id, o.id))
}

// list returns the tickets in dir in the order of the queue, without having looked into them.
func (d *backend) list(dir string) ([]entry, error) {
	d.requests.Add(1)
	names, err := readNames(dir)
	if ignoreMissing(err) != nil {
		return nil, failed(err)
	}
	all := make([]entry, len(names))
	for i, name := range names {
		all[i] = newEntry(dir, name)
	}
	slices.SortFunc(all, entry.compare)
	return all, nil
}

// place puts t at the end of its queue. It returns driver.ErrGone if somebody has removed t.
//
// Each claim looks once it stands in the queue, so of two tickets whose owners both look one at least sees the
// other. If the later had looked before the earlier was there it would not count it, so the earlier moves behind it.
func (t *ticket) place() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	greatest := int64(0)
	for tries := 0; ; tries++ {
		own := newEntry(t.dir, fileName(max(time.Now().UnixNano(), greatest+1), t.id))
		err := os.Rename(t.path, own.path)
		if errors.Is(err, fs.ErrNotExist) {
			if _, gone := os.Lstat(t.path); gone != nil {
				return fmt.Errorf("%w: its ticket was removed: %w", driver.ErrGone, gone)
			}
			// There is no queue: whoever was the last to go has removed it.
			if err := t.d.folder.mkdirAll(t.dir); err != nil {
				return failed(err)
			}
			continue
		}
		if err != nil {
			return failed(err)
		}
		t.path = own.path
		all, err := t.d.list(t.dir)
		if err != nil {
			return err
		}
		if len(all) == 0 || all[len(all)-1].compare(own) <= 0 {
			return nil
		}
		greatest = all[len(all)-1].number
		if tries > 3 { // many come at once
			time.Sleep(time.Duration(tries) * 100 * time.Microsecond)
		}
	}
}

// read looks into the ticket, and removes it if its process is dead or its time is over. It reports whether it is
// there.
func (d *backend) read(e *entry) (there bool, err error) {
	if !e.known {
		_, err := os.Lstat(e.path)
		return err == nil, failed(ignoreMissing(err))
	}
	f, err := os.Open(e.path)
	if err != nil {
		return false, failed(ignoreMissing(err))
	}
	defer f.Close()
	moment := now() // before what the owner may be writing is read
	dead, err := tryLock(f, false)
	if err != nil {
		return false, failed(err)
	}
	r, ok := record{}, false
	for tries := 0; !ok && tries < 10; tries++ {
		if tries > 0 {
			runtime.Gosched()
		}
		b, err := readAll(f)
		if err != nil {
			return false, failed(err)
		}
		r, ok = decode(b)
	}
	switch {
	case ok && r.over(d.boot, moment), dead && !r.Stays:
		return false, failed(ignoreMissing(os.Remove(e.path)))
	case ok:
		e.record, e.weight, e.limit = r, r.Weight, r.Limit
	}
	return true, nil
}

// blockers looks at the tickets ahead of a claim, from the nearest on. It returns none if the claim fits behind them,
// else some of which at least one has to change before it does: one, if there is one that is enough.
func (d *backend) blockers(ahead []entry, weight, limit int32) ([]entry, error) {
	var found []entry
	var waiter *entry     // the nearest that wants permits, too, and does not hold them yet
	var sum, nearer int64 // the weights of those found, and of those among them up to the waiter
	for _, e := range slices.Backward(ahead) {
		there, err := d.read(&e)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		sum += int64(e.weight)
		found = append(found, e)
		switch {
		case waiter != nil && !driver.Fits(sum-nearer, waiter.weight, waiter.limit):
			return []entry{*waiter}, nil // which is granted before
		case !driver.Fits(int64(e.weight), weight, limit):
			return []entry{e}, nil
		case waiter == nil && limit != driver.All && e.known && !e.record.Held && e.limit >= limit:
			waiter, nearer = &e, sum
		case waiter == nil && !driver.Fits(sum, weight, limit):
			return found, nil
		}
	}
	if driver.Fits(sum, weight, limit) {
		return nil, nil
	}
	return found, nil
}
