//go:build linux

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/locktest"
)

func newBackend(t *testing.T, dir string) (*backend, locker.Locker) {
	t.Helper()
	d, l, err := openBackend(dir)
	must(t, err)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return d, l
}

// exclusive returns a claim of x that only tries.
func exclusive() *driver.Claim { return locktest.Claim("x", 15*time.Second, false) }

// ticketFor makes a ticket that does not stand in its queue yet.
func ticketFor(t *testing.T, d *backend, c *driver.Claim) *ticket {
	t.Helper()
	own, err := d.newTicket(c)
	must(t, err)
	c.State = own
	t.Cleanup(func() { _ = own.remove() })
	return own
}

// plant writes a file into the queue of x.
func plant(t *testing.T, d *backend, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(d.queue("x"), name)
	must(t, errors.Join(os.MkdirAll(d.queue("x"), 0o777), os.WriteFile(path, content, 0o666)))
	return path
}

func tryX(t *testing.T, l locker.Locker) error {
	t.Helper()
	lock, err := l.TryAcquire(t.Context(), "x")
	if err == nil {
		release(t, lock)
	}
	return err
}

// A claim that comes to stand ahead of one that did not see it moves behind it: that one may hold the name.
func TestMovesBehind(t *testing.T) {
	d, _ := newBackend(t, t.TempDir())
	late := exclusive()
	own := ticketFor(t, d, late)

	// Its number is greater than any that the other will think of.
	holder := exclusive()
	first := ticketFor(t, d, holder)
	path := filepath.Join(first.dir, fileName(time.Now().Add(time.Hour).UnixNano(), holder.ID))
	must(t, errors.Join(d.folder.mkdirAll(first.dir), os.Rename(first.path, path)))
	first.path = path
	if _, err := first.grant(holder); err != nil {
		t.Fatal(err)
	}

	must(t, own.place())
	if a, b := newEntry("", filepath.Base(first.path)), newEntry("", filepath.Base(own.path)); a.compare(b) >= 0 {
		t.Errorf("%s is ahead of %s", b.path, a.path)
	}
	if blockers, err := own.blockers(); err != nil || len(blockers) != 1 || blockers[0].id != holder.ID {
		t.Errorf("waits for %+v, %v", blockers, err)
	}
}

// A claim is shown when it stands where it will stay: before, another that came after it may get ahead.
func TestShownInItsPlace(t *testing.T) {
	d, l := newBackend(t, t.TempDir())
	holder := acquire(t, l, "x")
	early := exclusive()
	own := ticketFor(t, d, early)
	path := filepath.Join(own.dir, fileName(time.Now().UnixNano(), early.ID))
	if err := os.Rename(own.path, path); err != nil { // it has not looked yet whether others came
		t.Fatal(err)
	}
	own.path = path
	if found, err := d.Look(t.Context(), "x"); err != nil || len(found) != 1 {
		t.Errorf("shown: %+v, %v", found, err)
	}
	must(t, own.place())
	waited := make(chan error, 1)
	go func() {
		blockers, err := own.blockers()
		if err == nil {
			err = own.wait(t.Context(), blockers)
		}
		waited <- err
	}()
	queued(t, l, "x", 2)
	release(t, holder)
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// A ticket is extended at the last look before a third of the TTL has passed. An extension that was written when the time
// was over does not count: somebody may have seen that.
func TestExtended(t *testing.T) {
	d, _ := newBackend(t, t.TempDir())
	own := ticketFor(t, d, exclusive())
	must(t, own.place())
	own.record.Until = now() + int64(40*time.Second+d.check/2) // at the next look less than two thirds would be left
	began := d.clock.Now()
	if until, err := own.extend(time.Minute); err != nil || until < began.Add(time.Minute) {
		t.Errorf("%v, %v", until, err)
	}
	own.record.Until = now() - 1
	if _, err := own.extend(time.Minute); !errors.Is(err, driver.ErrGone) {
		t.Errorf("extended when its time was over: %v", err)
	}
}

// What is released and has to stay is not extended by a renewal that comes late.
func TestStaysIsNotExtended(t *testing.T) {
	d, l := newBackend(t, t.TempDir())
	c := exclusive()
	if _, err := d.Acquire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	const stays = 200 * time.Millisecond
	began := time.Now()
	must(t, d.Linger(t.Context(), c, stays))
	if _, err := locktest.Renewed(t, d, c); !errors.Is(err, driver.ErrGone) {
		t.Errorf("renewed: %v", err)
	}
	for what, do := range map[string]func() error{
		"release again": func() error { return d.Release(t.Context(), c) },
		"linger again":  func() error { return d.Linger(t.Context(), c, time.Hour) },
		"abandon":       func() error { return d.Abandon(t.Context(), c) },
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := tryX(t, l); !errors.Is(err, locker.ErrNotAcquired) && time.Since(began) < stays {
		t.Errorf("a name that stays taken: %v", err)
	}
	release(t, acquire(t, l, "x"))
}

// What another version has written into a queue is respected until it goes, shown, and can be evicted.
func TestOtherVersion(t *testing.T) {
	d, l := newBackend(t, t.TempDir())
	for _, name := range []string{fileName(1, strings.Repeat("0", 32)) + "2", "README", "0000000000000000001-x.1"} {
		path := plant(t, d, name, []byte("{}"))
		if err := tryX(t, l); !errors.Is(err, locker.ErrNotAcquired) {
			t.Errorf("%s: %v", name, err)
		}
		found, err := locker.Inspect(t.Context(), l, "x")
		if err != nil || len(found) != 1 || !found[0].Held || found[0].Weight != driver.All || found[0].ID != name {
			t.Errorf("%s is shown as %+v, %v", name, found, err)
		}
		waiting := begin(t, l, "x", 2)
		must(t, os.Remove(path))
		release(t, waiting.Granted(t, time.Minute))

		plant(t, d, name, nil)
		if err := locker.Evict(t.Context(), l, found[0]); err != nil {
			t.Error(err)
		}
		release(t, acquire(t, l, "x"))
	}
}

// A ticket that cannot be read counts as an exclusive one while its process lives, and is removed when that is dead.
func TestUnreadable(t *testing.T) {
	d, l := newBackend(t, t.TempDir())
	for _, content := range []string{"", "12345678 {}\n", "x", "00000000 {\"name\":\"\"}\n"} {
		path := plant(t, d, fileName(1, strings.Repeat("a", 32)), []byte(content))
		f, err := os.Open(path)
		must(t, err)
		if free, err := tryLock(f, true); err != nil || !free {
			t.Fatal(free, err)
		}
		if err := tryX(t, l); !errors.Is(err, locker.ErrNotAcquired) {
			t.Errorf("%q: %v", content, err)
		}
		_ = f.Close()
		if err := tryX(t, l); err != nil {
			t.Errorf("%q, and nobody has it open: %v", content, err)
		}
	}
}

// A reader that comes while a ticket is written sees what was there, what will be there, or that it is not whole.
func TestTorn(t *testing.T) {
	old := record{Name: []byte("x"), Owner: []byte("a longer text\n"), Weight: 7, Until: 1}
	next := record{Name: []byte("x"), Owner: []byte("text"), Weight: 8, Until: 2}
	for _, pair := range [][2]record{{old, next}, {next, old}} {
		before, after := pair[0].encode(), pair[1].encode()
		for n := range len(after) + 1 {
			b := append([]byte(nil), before...)
			b = append(b, make([]byte, max(0, n-len(b)))...)
			copy(b, after[:n])
			r, ok := decode(b)
			if ok && r.Weight != pair[0].Weight && r.Weight != pair[1].Weight || ok && r.Until != int64(r.Weight)-6 {
				t.Fatalf("%d bytes written: %+v", n, r)
			}
			if (n == 0 || n == len(after)) && !ok {
				t.Fatalf("%d bytes written, and not whole: %q", n, b)
			}
		}
	}
}

// A ticket that stays taken is over when its time is, and when the machine was started anew.
func TestReboot(t *testing.T) {
	d, l := newBackend(t, t.TempDir())
	stays := record{
		Name: []byte("x"), Weight: driver.All, Limit: driver.All, Held: true, Stays: true,
		Until: now() + int64(time.Hour), Boot: d.boot,
	}
	path := plant(t, d, fileName(1, strings.Repeat("a", 32)), stays.encode())
	if err := tryX(t, l); !errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("stays: %v", err)
	}
	stays.Boot = "another"
	must(t, os.WriteFile(path, stays.encode(), 0o666))
	if err := tryX(t, l); err != nil {
		t.Errorf("stayed in another boot: %v", err)
	}
}

// What the dead have left is removed also if nobody asks for the name, once by one of those who could.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	d, l := newBackend(t, dir)
	dead := record{
		Name: []byte("x"), Weight: driver.All, Limit: driver.All, Until: now() + int64(time.Hour), Boot: d.boot,
	}
	litter := func() []string {
		t.Helper()
		left, err := ticketsIn(dir, "x")
		must(t, err)
		return left
	}
	held := acquire(t, l, "held")
	fresh := ticketFor(t, d, exclusive())
	mess := func() {
		plant(t, d, fileName(1, strings.Repeat("a", 32)), dead.encode())
		must(t, os.WriteFile(filepath.Join(d.fresh(), "b"), dead.encode(), 0o666))
	}
	mess()
	d.sweepAfter(time.Minute)
	if left := litter(); len(left) != 1 { // the fresh one has an owner
		t.Errorf("left: %q", left)
	}
	mess()
	d.sweepAfter(time.Minute) // it was done just now
	if left := litter(); len(left) != 3 {
		t.Errorf("swept again at once: %q", left)
	}
	d.sweepAfter(0)
	if left := litter(); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
	if err := fresh.place(); err != nil {
		t.Error(err)
	}
	release(t, held)
}

// A queue that cannot be read keeps nobody from sweeping the others.
func TestSweepGoesOn(t *testing.T) {
	dir := t.TempDir()
	d, l := newBackend(t, dir)
	mess := func(name string) {
		must(t, os.MkdirAll(filepath.Join(d.queue(name), fileName(1, strings.Repeat("a", 32))), 0o777))
	}
	for i := range 20 { // most file systems list the first or the last of these first
		mess(fmt.Sprint("before ", i))
	}
	plant(t, d, fileName(1, strings.Repeat("a", 32)), nil)
	for i := range 20 {
		mess(fmt.Sprint("after ", i))
	}
	d.sweep()
	if _, err := os.Stat(d.queue("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	seen := 0
	for _, err := range locker.Names(t.Context(), l, "") {
		if seen++; err == nil {
			t.Error("a name was read")
		}
	}
	if seen != 1 {
		t.Errorf("Names went on after an error: %d", seen)
	}
}

// A try is not refused because of another that is about to give up.
func TestTryBehindAnother(t *testing.T) {
	d, _ := newBackend(t, t.TempDir())
	other := ticketFor(t, d, exclusive())
	must(t, other.place())
	c := exclusive()
	looks := 0
	err := taken(func() ([]entry, error) {
		found, err := d.look(c)
		if looks++; looks == 3 {
			err = errors.Join(err, other.remove())
		}
		return found, err
	})
	if err != nil || looks != 4 {
		t.Errorf("refused after %d looks: %v", looks, err)
	}
	other = ticketFor(t, d, exclusive())
	must(t, other.place())
	if err := taken(func() ([]entry, error) { return d.look(c) }); !errors.Is(err, driver.ErrTaken) {
		t.Errorf("it does not give up: %v", err)
	}
}

// An operator removes everything while a Locker is in use: holders are told, and it goes on.
func TestDirectoryRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	_, l := newBackend(t, dir)
	lock := acquire(t, l, "x")
	must(t, os.RemoveAll(dir))
	locktest.Lost(t, lock, time.Minute)
	if err := lock.Release(t.Context()); !errors.Is(err, locker.ErrLost) {
		t.Error(err)
	}
	next := acquire(t, l, "x")
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	release(t, next)
}

func TestQueueName(t *testing.T) { conformance.NameEncoding(t, queueName, 64) }

func TestNew(t *testing.T) {
	_, err := New("")
	var known *locker.Error
	if !errors.As(err, &known) || !errors.Is(err, locker.ErrInvalidOption) {
		t.Error(err)
	}
	_, err = New(t.TempDir(), locker.WithTTL(0))
	if !errors.Is(err, locker.ErrInvalidOption) {
		t.Error(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/7") // not in cron, so not where to meet
	t.Setenv("XDG_CACHE_HOME", "/home/user/.cache")
	if dir, err := DefaultDir(); dir != "/home/user/.cache/locker" || err != nil {
		t.Error(dir, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if dir, err := DefaultDir(); err == nil {
		t.Error(dir)
	}
}

// A claim that may hold its permits and does not see it, because its process is stopped, keeps nobody behind it from permits that
// are free: neither a try nor one that has waited behind it.
func TestPermitsBehindStopped(t *testing.T) {
	d, _, err := openBackend(t.TempDir(), locker.WithTTL(3*time.Second))
	must(t, err)
	t.Cleanup(func() { _ = d.Close(context.Background()) })
	permit := func(wait bool) *driver.Claim {
		c := locktest.Claim("x", time.Hour, wait)
		c.Weight, c.Limit = 1, 3
		return c
	}
	held := []*driver.Claim{permit(false), permit(false), permit(false)}
	for _, c := range held {
		locktest.Take(t, d, c)
	}
	stopped := ticketFor(t, d, permit(true))
	must(t, stopped.place())
	if _, err := stopped.update(func(r *record, now int64) bool { r.Waits, r.Until = true, now+int64(time.Hour); return true }); err != nil {
		t.Fatal(err)
	}
	waiting := locktest.BeginClaim(t.Context(), d, permit(true))
	for shown := 0; shown < 5; time.Sleep(time.Millisecond) {
		all, err := d.Look(t.Context(), "x")
		must(t, err)
		shown = len(all)
	}
	locktest.Free(t, d, held[0])
	locktest.Taken(t, d, permit(false)) // the place of the stopped one is that of the permit
	locktest.Free(t, d, held[1])
	waiting.Granted(t, time.Minute)
	locktest.Free(t, d, held[2])
	locktest.Take(t, d, permit(false))
	locktest.Taken(t, d, permit(false))
}
