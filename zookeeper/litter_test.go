package zookeeper

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The servers remove empty queues; sequence numbers start again, tokens do not.
func TestQueuesAreReaped(t *testing.T) {
	z := reaped.beside(t)
	op := console(t, z.Addr())
	d := raw(t, []string{z.Addr()})
	token := int64(0)
	for range 3 {
		c := claim("a")
		if g := take(t, d, c); g.Token <= token {
			t.Errorf("token %d after %d", g.Token, token)
		} else {
			token = g.Token
		}
		must(t, d.Release(context.Background(), c))
		op.gone(folder + "/a")
	}
	if w := word(t, z, "wchs"); !strings.Contains(w, "Total watches:0") {
		t.Errorf("watches are left: %s", w)
	}
}

func TestManyNamesLeaveNothing(t *testing.T) {
	z := reaped.beside(t)
	l := open(t, []string{z.Addr()}, locker.WithTTL(time.Minute)) // how long it takes is no matter
	nodes := func() int {
		fields, err := z.Status(within(t, time.Minute))
		must(t, err)
		n, _ := strconv.Atoi(fields["Node count"])
		return n
	}
	lock, err := l.Acquire(within(t, time.Minute), "first")
	must(t, err)
	before, goroutines := nodes(), runtime.NumGoroutine()
	var wg sync.WaitGroup
	const names, workers = 4_000, 50
	for w := range workers {
		wg.Go(func() {
			for i := range names / workers {
				if !uses(t, l, fmt.Sprintf("used once: %d %d", w, i)) {
					return
				}
			}
		})
	}
	wg.Wait()
	eventually.Is(t, "the queues to be reaped", func() bool { return nodes() <= before })
	w := word(t, z, "wchs")
	if !strings.Contains(w, "Total watches:1") && !strings.Contains(w, "Total watches:0") { // that of the lock held
		t.Errorf("watches are left: %s", w)
	}
	// Other tests run at the same time, so only many count.
	eventually.Is(t, "goroutines to end", func() bool { return runtime.NumGoroutine()-goroutines <= names/2 })
	if err := freed(context.Background(), lock); err != nil {
		t.Error(err)
	}
}

// Who waits again and again for a short time behind one who holds for long leaves nothing in the library.
func TestCancelledWaitersShareWatch(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d, holder := console(t, z.Addr()), raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()})
	h := claim(name(t))
	take(t, holder, h)
	channels := func() (n int) { // that the library keeps
		for all := reflect.ValueOf(d.conn).Elem().FieldByName("watchers").MapRange(); all.Next(); {
			n += all.Value().Len()
		}
		return n
	}
	watches := func() (n int) {
		d.watched.Range(func(any, any) bool { n++; return true })
		return n
	}
	for range 10 {
		ctx, cancel := context.WithCancel(within(t, time.Minute))
		c := claim(h.Name)
		turn := begin(ctx, d, c)
		op.nodeOf(c)
		stillWaits(t, turn, d)
		cancel()
		<-turn.Done
		must(t, d.Abandon(within(t, time.Minute), c))
	}
	if n := channels(); n > 1 {
		t.Errorf("the library keeps %d channels", n)
	}
	c := claim(h.Name)
	turn := waiting(t, op, d, c)
	release(t, holder, h)
	turn.Granted(t, patience)
	release(t, d, c)
	eventually.Is(t, "the watch to be forgotten", func() bool { return watches() == 0 })
}

// There is no way to forget a watch but to end it: waiters that gave up, and
// predecessors that did, leave none.
func TestCancelledWaitersLeaveNoWatch(t *testing.T) {
	z := counted.beside(t)
	op := console(t, z.Addr())
	d := raw(t, []string{z.Addr()})
	h := claim("a")
	take(t, d, h)
	for range 5 {
		var cancels []context.CancelFunc
		var claims []*driver.Claim
		var done []*acquisition
		for i := range 3 {
			ctx, cancel := context.WithCancel(context.Background())
			c := claim("a")
			claims, cancels, done = append(claims, c), append(cancels, cancel), append(done, begin(ctx, d, c))
			op.length("a", i+2)
		}
		for i, cancel := range cancels {
			cancel()
			<-done[i].Done
			must(t, d.Abandon(within(t, time.Minute), claims[i]))
		}
	}
	must(t, d.Release(context.Background(), h))
	op.length("a", 0)
	eventually.Is(t, "watches to go", func() bool { return strings.Contains(word(t, z, "wchs"), "Total watches:0") })
}
