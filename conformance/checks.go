package conformance

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/seed80cd6120/locker"
)

// must ends the case with a failure if err is not nil.
func (c *C) must(err error, format string, args ...any) {
	c.tb.Helper()
	switch {
	case err == nil:
	case c.noAnswer(err):
		c.giveUp()
	default:
		c.fatalf(format+": %v", append(args, err)...)
	}
}

// granted ends the case with a failure if an acquisition that began then returned an error, also if that came at the end of the
// time of the case, after a wait that is long on a machine that was mostly on time.
func (c *C) granted(err error, name string, begun time.Time) {
	c.tb.Helper()
	if err != nil && c.ctx.Err() != nil && time.Since(begun) >= c.long && c.mostlyOnTime(begun) {
		c.fatalf("acquire %q: %v after %v", name, err, time.Since(begun).Round(time.Millisecond))
	}
	c.must(err, "acquire %q", name)
}

// expect fails the case unless err is want, or wraps it.
func (c *C) expect(err, want error, format string, args ...any) {
	c.tb.Helper()
	switch {
	case errors.Is(err, want):
	case c.noAnswer(err):
		c.tooSlow()
	default:
		c.errorf(format+": %v, want %v", append(args, err, want)...)
	}
}

// answers are the errors that say how it stands with a lock, or that a call was wrong.
var answers = []error{
	locker.ErrNotAcquired, locker.ErrHeld, locker.ErrLost, locker.ErrReleased, locker.ErrClosed, locker.ErrNotFound,
	locker.ErrUnsupported, locker.ErrInvalidName, locker.ErrInvalidOption,
}

// noAnswer reports whether err may say no more than that a server did not answer in time, or before the time of the case was over,
// on a machine that was late. A release is tried for five seconds or the TTL, in which one request over a new connection waits for a
// dozen answers.
func (c *C) noAnswer(err error) bool {
	if err == nil || c.late.Worst(c.begun) < c.lateFor() {
		return false
	}
	return !isAnswer(err)
}

func isAnswer(err error) bool {
	return slices.ContainsFunc(answers, func(a error) bool { return errors.Is(err, a) })
}

// mostlyOnTime reports whether this machine was late for a small part of the time since begun, and the case has found nothing yet
// that it cannot judge.
func (c *C) mostlyOnTime(begun time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.undecided && c.late.Sum(begun) < time.Since(begun)/4
}

// refused fails the case unless an acquisition is refused with want, or with any error if that is nil.
func (c *C) refused(want error, ctx context.Context, acquire acquirer, name string, opts ...locker.AcquireOption) {
	c.tb.Helper()
	h, err := acquire(ctx, name, opts...)
	switch {
	case err == nil:
		c.errorf("acquired %s, which has to be refused", brief(name))
		c.release(h)
	case want != nil:
		c.expect(err, want, "an acquisition of %s", brief(name))
	}
}

// unsupported fails the case unless an acquisition with this option is refused and takes
// nothing.
func (c *C) unsupported(opt locker.AcquireOption) {
	c.tb.Helper()
	l := c.open()
	for _, acquire := range l.ways() {
		c.refused(locker.ErrUnsupported, c.ctx, acquire, c.x, opt)
	}
	l.free(c.x, soon)
}

// unlessLate fails the case. But if this machine was late by more than limit since begun it comes
// to no verdict.
func (c *C) unlessLate(begun time.Time, limit time.Duration, format string, args ...any) {
	c.tb.Helper()
	if c.late.Worst(begun) > limit {
		c.tooSlow()
		return
	}
	c.errorf(format, args...)
}

// serverLate is how late a server may be on a machine that is late itself. The suite sees only the latter.
const serverLate = 3 * time.Second

// lateBy fails the case because something came later by that much than it may. But if a server may have been late by as much it comes
// to no verdict.
func (c *C) lateBy(by time.Duration, format string, args ...any) {
	c.tb.Helper()
	if by > serverLate {
		c.errorf(format, args...)
		return
	}
	c.unlessLate(c.begun, 20*time.Millisecond, format, args...)
}

// tooSlow notes that the case could not come to a verdict.
func (c *C) tooSlow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undecided = true
}

// giveUp ends the goroutine that calls it, and the rest of the case soon, without a verdict.
func (c *C) giveUp() {
	c.tooSlow()
	c.cancel()
	runtime.Goexit()
}

// lateFor is how late a machine may be to have a say about locks with the TTL of the backend:
// they are renewed in time by one that is not. It is less for a long TTL: servers are late, too, and on ZooKeeper a lock
// may be granted, after an outage, with a quarter of its TTL left.
func (c *C) lateFor() time.Duration { return min(c.b.TTL/6, time.Second/8) }

// mayLose reports whether locks may be lost by right: this machine was late, or servers have been away, of which an ensemble may
// go away once more while it comes up.
func (c *C) mayLose() bool { return c.wasAway.Load() || c.late.Worst(c.begun) > c.lateFor() }

// lostByRight reports whether the lock was lost by right: its deadline is over, and that could not be moved in time.
func (c *C) lostByRight(h Holding) bool { return time.Now().After(h.Deadline()) && c.mayLose() }

// gaveUp reports whether a release that began then says that it was tried for as long as it may be. It goes on in the background.
func (c *C) gaveUp(err error, begun time.Time) bool {
	return err != nil && !isAnswer(err) && time.Since(begun) >= min(c.b.TTL, 5*time.Second)
}

// alive fails the case if the lock is lost.
func (c *C) alive(h Holding, when string) {
	c.tb.Helper()
	switch {
	case h.Context().Err() == nil:
	case c.lostByRight(h):
		c.tooSlow()
	default:
		c.errorf("%q lost %s: %v", h.Name(), when, cause(h))
	}
}

// cause returns why a lock is no longer held.
func cause(h Holding) error { return context.Cause(h.Context()) }

// giveBack releases h. Servers that have been away may answer later than a release is tried: that is no error.
func (c *C) giveBack(h Holding) error {
	begun := time.Now()
	err := h.Release(c.ctx)
	if c.wasAway.Load() && c.gaveUp(err, begun) {
		return nil
	}
	return err
}

// release gives back locks that must be held.
func (c *C) release(held ...Holding) {
	c.tb.Helper()
	for _, h := range held {
		err := c.giveBack(h)
		if errors.Is(err, locker.ErrLost) && c.lostByRight(h) {
			c.tooSlow()
			continue
		}
		c.expect(err, nil, "release of %q", h.Name())
	}
}

// releaseAll gives back locks that must be held, and were all the time.
func (c *C) releaseAll(held []Holding, when string) {
	c.tb.Helper()
	for _, h := range held {
		c.alive(h, when)
		c.release(h)
	}
}

// holds fails the case unless h is held, and releases it.
func (c *C) holds(h Holding) {
	c.tb.Helper()
	c.alive(h, "although nobody released it")
	c.open().taken(h.Name())
	c.release(h)
}

// ends waits until the lock's context is done.
func (c *C) ends(h Holding, after string) {
	c.tb.Helper()
	if !c.closes(h.Context().Done(), soon) {
		c.fatalf("the context of %q does not end after %s", h.Name(), after)
	}
}

// endsWith fails the case unless ctx ends, with this cause.
func (c *C) endsWith(ctx context.Context, want error, after string) {
	c.tb.Helper()
	if !c.closes(ctx.Done(), soon) || ctx.Err() == nil {
		c.errorf("the context has not ended after %s", after)
	}
	c.expect(context.Cause(ctx), want, "the cause of a context after %s", after)
}

// releaseLost fails the case unless the release of h, which was lost, says so.
func (c *C) releaseLost(h Holding) {
	c.tb.Helper()
	c.expect(h.Release(c.ctx), locker.ErrLost, "release of a lock that was lost")
}

// destroy removes whatever makes somebody the holder of name.
func (c *C) destroy(name string) {
	c.tb.Helper()
	c.must(c.h.Destroy(c.ctx, name), "Destroy %q", name)
}

// destroyUnder destroys a lock, acquired after begun, for which another waits. It comes to no verdict where the lock may have been
// over before: then it was the other's that was destroyed.
func (c *C) destroyUnder(name string, begun time.Time) {
	c.tb.Helper()
	c.destroy(name)
	if time.Since(begun) > longTTL*3/4 {
		c.giveUp()
	}
}

// loses destroys the lock and fails the case unless its holder is told within a second.
func (c *C) loses(w *watch) {
	c.tb.Helper()
	c.destroy(w.lock.Name())
	w.lostWithin(told, "the lock was destroyed")
}

// told is the time within which a holder is told that its lock was removed behind its back.
const told = time.Second + 200*time.Millisecond

// whileLiving looks whether locks with a TTL are kept by a holder that lives. On a
// machine that runs goroutines late by a good part of the TTL they may be lost by
// right; then it looks again with a longer one, if the case has the time for that. A server that
// stands still for a TTL loses them by right, too, but not twice.
func (c *C) whileLiving(broken func(ttl time.Duration) error) {
	c.tb.Helper()
	failed := false // although this machine was on time
	for ttl := c.b.TTL; ttl <= 8*c.b.TTL; {
		start := time.Now()
		c.mu.Lock()
		before := len(c.clients)
		c.mu.Unlock()
		err := broken(ttl)
		if err == nil {
			return
		}
		late := c.late.Worst(start.Add(-time.Second))
		onTime := late <= ttl/32
		if onTime && failed || c.ctx.Err() != nil {
			c.must(err, "TTL %v, this machine late by at most %v", ttl, late)
		}
		c.mu.Lock()
		opened := c.clients[before:]
		c.mu.Unlock()
		shut(opened)
		if onTime {
			failed = true
			continue
		}
		if ttl *= 2; time.Until(c.end) < 2*time.Since(start)+cleanupBound {
			break
		}
	}
	c.tooSlow()
}

// lasts looks whether a lock is held for d, while another wants it with opts, and releases it.
func (c *C) lasts(h Holding, d time.Duration, opts ...locker.AcquireOption) error {
	other := c.open()
	for end := time.Now().Add(d); time.Now().Before(end) && c.ctx.Err() == nil; time.Sleep(c.b.TTL / 20) {
		if got, err := other.try(h.Name(), opts...); err == nil {
			c.release(got)
			return errors.New("another got the name while it was held")
		}
		if h.Context().Err() != nil {
			return cause(h)
		}
	}
	if c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	return h.Release(c.ctx)
}

// cleanupBound is how long a clean-up may take when the server is well. It is
// shorter than longTTL, so that no lease does the cleaning.
const cleanupBound = 8 * time.Second

// leftFree fails the case unless names can be had, at once after one another,
// and nothing is left of them on the server. Servers that have been away have the time to come back before.
func (c *C) leftFree(names ...string) {
	c.tb.Helper()
	l := c.open()
	if c.wasAway.Load() {
		l.free(c.name("back"), 2*soon)
	}
	end := time.Now().Add(cleanupBound)
	for _, name := range names {
		l.free(name, max(time.Until(end), 2*serverLate)+c.late.Slack(end.Add(-cleanupBound)))
	}
	c.nothingLeft(cleanupBound)
}

// nothingLeft fails the case if something of its names stays on the server. Without
// the hook it can say nothing.
func (c *C) nothingLeft(d time.Duration) {
	c.tb.Helper()
	if c.h.Leftovers == nil {
		return
	}
	var left []string
	var err error
	nothing := func() bool {
		left, err = c.h.Leftovers(c.ctx, c.mine())
		return err == nil && len(left) == 0
	}
	start := time.Now()
	switch {
	case c.within(d, nothing):
	case c.noAnswer(err):
		c.tooSlow()
	default:
		c.errorf("left on the server after %v: %q %v", time.Since(start), left[:min(len(left), 10)], err)
	}
}
