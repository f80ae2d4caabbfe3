package checks

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/internal/faults"
)

// Who holds what, and what tells holders apart.

func excludesItself(x *exam) {
	h := x.held(x.a)
	if x.free(x.a, x.name) && h.Look() == nil {
		x.Errorf("the second goroutine got the lock while the first held it")
	}
	x.giveBack(h)
}

func neighbours(x *exam) {
	h := x.Acquired(x.a, x.name+"/b", 10*time.Second)
	other, err := x.b.Acquire(x.Within(3*time.Second), x.name)
	if err != nil {
		x.Errorf("%q is not free while %q is held: %v", x.name, x.name+"/b", err)
	} else {
		x.giveBack(other)
	}
	x.giveBack(h)
}

func namesIndependent(x *exam) {
	h := x.held(x.b)
	wait := x.Waits(x.a, x.name, 10*time.Second)
	start := time.Now()
	for range 5 {
		x.Released(x.Acquired(x.a, x.Lock(), 10*time.Second))
	}
	if took := time.Since(start); took > 2*time.Second {
		x.Errorf("five other names took %v", took)
	}
	x.Released(h)
	x.Released(x.Get(wait))
}

func tokensRise(x *exam) {
	var last int64
	for range 5 {
		for _, p := range []*faults.Player{x.a, x.b} {
			h := x.held(p)
			if t := h.Lock.Token(); t <= last {
				x.Errorf("token %d after %d", t, last)
			} else {
				last = t
			}
			x.Released(h)
		}
	}
}

func nodeForgets(x *exam) {
	x.Warm(x.b)
	ha := x.held(x.a)
	forget := x.Destroy
	if x.Expire != nil {
		forget = x.Expire // on a majority, where there are several
	}
	x.Did("forget", true, x.name, func() error { return forget(x.soon(), x.name) })
	hb := x.held(x.b)
	x.ToldApart(ha, hb)
	x.giveBack(hb)
}

func foreignEntries(x *exam) {
	h := x.held(x.a)
	x.Untidy = true // what is planted stays
	x.Must(x.Plant(x.soon(), x.name, "x"))
	x.Released(h)
	if why := acquires(x); why != "" {
		x.Errorf("the next acquisition: %s", why)
	}
}

// acquires has A take the name and give it back; it returns why it cannot, and nothing if it waits: what is ahead may be
// a claim of a later version.
func acquires(x *exam) (why string) {
	defer func() {
		if p := recover(); p != nil {
			why = "it panicked"
		}
	}()
	h, err := x.a.Acquire(x.Within(5*time.Second), x.name)
	if errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	if err != nil {
		return strings.TrimSpace(err.Error())
	}
	x.giveBack(h)
	return ""
}
