package redlock

import (
	"sync"
	"time"
)

// A process that comes back for a lock as soon as it has released it, while others
// wait, is served several times in a row: handing over each time would cost more
// than the work does. It is found out by its habit, and whoever has no such habit
// always hands over at once.
const (
	// turn is for how long the lock stays with one process then, and helpings how
	// many times it is served at most.
	turn     = 3 * time.Millisecond
	helpings = 6
	// soon is within what time a process has to come back. If it does not, the one
	// who waits gets the lock that much later, this once.
	soon = 500 * time.Microsecond
	// proof is how many times in a row it must have come back.
	proof = 3
	// doubt is what is counted off when it did not although that was expected.
	doubt = 8
	// maxHabits bounds the names that are remembered.
	maxHabits = 256
)

type habits struct {
	mu   sync.Mutex
	list map[string]*habit
}

// habit is what is known of one name for which others have waited.
type habit struct {
	began    time.Time // of our turn
	released time.Time
	returns  int         // times in a row that we have come back soon
	served   int         // times in this turn
	pass     func()      // what we owe: the lock is free, and others wait
	timer    *time.Timer // then
	debts    int         // so far
}

// contended notes that others wait for name.
func (h *habits) contended(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list[name] != nil {
		return
	}
	if len(h.list) >= maxHabits {
		for other, one := range h.list { // any that owes nothing
			if one.pass == nil {
				delete(h.list, other)
				break
			}
		}
	}
	if h.list == nil {
		h.list = make(map[string]*habit)
	}
	h.list[name] = &habit{released: time.Now()}
}

// asking notes that name is asked for. If it says owing, the lock is free, others
// wait for it, and whoever has asked has to see to it that they get it.
func (h *habits) asking(name string) (owing bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.list[name]
	if one == nil {
		return false
	}
	if time.Since(one.released) < soon {
		one.returns++
	} else {
		one.returns = min(one.returns, 0)
	}
	return one.settle() != nil
}

// settle takes the debt over, if there is one.
func (one *habit) settle() (pass func()) {
	pass = one.pass
	one.pass = nil
	if pass != nil {
		one.timer.Stop()
	}
	return pass
}

// granted notes that name was got, from another or not.
func (h *habits) granted(name string, fromAnother bool) {
	if !fromAnother {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.list[name]; one != nil {
		one.began, one.served = time.Now(), 0
	}
}

// keeps: name is to be released without handing it over, for we shall be back.
func (h *habits) keeps(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.list[name]
	if one == nil {
		return false
	}
	one.served++
	return one.returns >= proof && one.served < helpings && time.Since(one.began) < turn
}

// released notes that name was released. If it was kept, pass is called unless it
// is asked for soon.
func (h *habits) released(name string, kept bool, pass func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.list[name]
	if one == nil {
		if kept {
			go pass()
		}
		return
	}
	one.released = time.Now()
	if !kept {
		return
	}
	one.debts++
	debt := one.debts
	one.pass = pass
	one.timer = time.AfterFunc(soon, func() {
		h.mu.Lock()
		var pass func()
		if one.debts == debt {
			if pass = one.settle(); pass != nil {
				one.returns = -doubt
			}
		}
		h.mu.Unlock()
		if pass != nil {
			pass()
		}
	})
}

// close settles all debts.
func (h *habits) close() {
	h.mu.Lock()
	var all []func()
	for _, one := range h.list {
		if pass := one.settle(); pass != nil {
			all = append(all, pass)
		}
	}
	h.list = nil
	h.mu.Unlock()
	for _, pass := range all {
		pass()
	}
}
