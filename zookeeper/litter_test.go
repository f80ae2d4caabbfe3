package zookeeper

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
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
		if err := d.Release(context.Background(), c); err != nil {
			t.Fatal(err)
		}
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
		fields, err := z.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(fields["Node count"])
		return n
	}
	lock, err := l.Acquire(within(t, time.Minute), "first")
	if err != nil {
		t.Fatal(err)
	}
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
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
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
			if err := d.Abandon(within(t, time.Minute), claims[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Release(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	op.length("a", 0)
	eventually.Is(t, "watches to go", func() bool { return strings.Contains(word(t, z, "wchs"), "Total watches:0") })
}
