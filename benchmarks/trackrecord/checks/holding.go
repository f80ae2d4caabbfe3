package checks

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/internal/faults"
)

// Who holds what, and what tells holders apart.

func excludesItself(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	name := x.Lock()
	h := x.Acquired(a, name, 10*time.Second)
	if granted(x, a, name) && h.Look() == nil {
		x.Errorf("the second goroutine got the lock while the first held it")
	}
	_ = h.Release(x.Ctx)
}

// granted tells whether p gets a lock within a second, and gives it back: one that does not
// wait for its holder has shown it by then.
func granted(x *faults.Exam, p *faults.Player, name string) bool {
	ctx, cancel := context.WithTimeout(x.Ctx, time.Second)
	defer cancel()
	h, err := p.Acquire(ctx, name)
	if err != nil {
		return false
	}
	_ = h.Release(x.Ctx)
	return true
}

func neighbours(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	h := x.Acquired(a, name+"/b", 10*time.Second)
	other, err := b.Acquire(x.Within(3*time.Second), name)
	if err != nil {
		x.Errorf("%q is not free while %q is held: %v", name, name+"/b", err)
	} else {
		_ = other.Release(x.Ctx)
	}
	_ = h.Release(x.Ctx)
}

func namesIndependent(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	h := x.Acquired(b, name, 10*time.Second)
	wait := x.Waits(a, name, 10*time.Second)
	start := time.Now()
	for range 5 {
		x.Released(x.Acquired(a, x.Lock(), 10*time.Second))
	}
	if took := time.Since(start); took > 2*time.Second {
		x.Errorf("five other names took %v", took)
	}
	x.Released(h)
	x.Released(x.Get(wait))
}

func tokensRise(x *faults.Exam) {
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	name := x.Lock()
	var last int64
	for range 5 {
		for _, p := range []*faults.Player{a, b} {
			h := x.Acquired(p, name, 10*time.Second)
			if t := h.Lock.Token(); t <= last {
				x.Errorf("token %d after %d", t, last)
			} else {
				last = t
			}
			x.Released(h)
		}
	}
}

func nodeForgets(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(b)
	name := x.Lock()
	ha := x.Acquired(a, name, 10*time.Second)
	forget := x.Destroy
	if x.Expire != nil {
		forget = x.Expire // on a majority, where there are several
	}
	x.Did("forget", true, name, func() error { return forget(x.Within(10*time.Second), name) })
	hb := x.Acquired(b, name, 10*time.Second)
	x.ToldApart(ha, hb)
	_ = hb.Release(x.Ctx)
}

func foreignEntries(x *faults.Exam) {
	x.Access.TTL = long
	a, _ := x.Player("A")
	name := x.Lock()
	h := x.Acquired(a, name, 10*time.Second)
	x.Untidy = true // what is planted stays
	x.Must(x.Plant(x.Within(10*time.Second), name, "x"))
	x.Released(h)
	panicked := func() (why string) {
		defer func() {
			if p := recover(); p != nil {
				why = "it panicked"
			}
		}()
		h, err := a.Acquire(x.Within(5*time.Second), name)
		if errors.Is(err, context.DeadlineExceeded) {
			return "" // it waits: the entry may be a claim of a later version
		}
		if err != nil {
			return strings.TrimSpace(err.Error())
		}
		_ = h.Release(x.Ctx)
		return ""
	}()
	if panicked != "" {
		x.Errorf("the next acquisition: %s", panicked)
	}
}
