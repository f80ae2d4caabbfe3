package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ring are Lockers that want one name again and again, in the same order.
type ring struct {
	*testing.T
	c     *clientv3.Client
	queue []*turn // the first holds
}

// turn is what one of them asks for.
type turn struct {
	b       *backend
	claim   *driver.Claim
	granted chan driver.Grant
	giveUp  context.CancelFunc
}

// newRing makes some of them and has them in their habits.
func newRing(t *testing.T, e *servers.Etcd, n int) *ring {
	t.Helper()
	r := &ring{T: t, c: dial(t, e.Addr())}
	for range n {
		r.join(driverOf(t, r.c))
	}
	for range 8 * n {
		r.join(r.release())
	}
	return r
}

// join has one of them queue.
func (r *ring) join(b *backend) *turn {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	u := &turn{b: b, claim: claim(r.Name(), true), granted: make(chan driver.Grant, 1), giveUp: cancel}
	go func() {
		defer close(u.granted)
		if g, err := b.Acquire(ctx, u.claim); err == nil {
			u.granted <- g
		}
	}()
	r.queue = append(r.queue, u)
	queued(r, r.c, r.Name(), len(r.queue))
	if len(r.queue) == 1 {
		<-u.granted
		return u
	}
	eventually.Is(r, "watch of the one ahead", func() bool {
		s := b.watches.usable()
		if s == nil {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		w := s.byKey[r.queue[len(r.queue)-2].claim.State.(*entry).key]
		return w != nil && w.id >= 0 && len(w.taps) > 0
	})
	return u
}

// release has the holder release, waits for the next to be granted, and returns the first.
func (r *ring) release() *backend {
	r.Helper()
	first := r.queue[0]
	r.queue = r.queue[1:]
	if err := first.b.Release(r.Context(), first.claim); err != nil {
		r.Fatal(err)
	}
	if g := <-r.queue[0].granted; g.Token != r.queue[0].claim.State.(*entry).rev.Load() || g.Token == 0 {
		r.Fatalf("granted: %+v", g)
	}
	return first.b
}

// releaseCosts is release, and what the server was asked for meanwhile. If that took so long
// that the next holder has begun to watch its own key, that is no part of it.
func (r *ring) releaseCosts(e *servers.Etcd) (first *backend, by map[string]int64) {
	r.Helper()
	since := requests(r, e)
	began := time.Now()
	first = r.release()
	_, by = since()
	if time.Since(began) >= guardAfter && by["Watch/Watch"] == 1 {
		delete(by, "Watch/Watch")
	}
	return first, by
}

// quit has the waiter at a place give up.
func (r *ring) quit(at int) *backend {
	r.Helper()
	u := r.queue[at]
	r.queue = append(r.queue[:at:at], r.queue[at+1:]...)
	u.giveUp()
	if g, granted := <-u.granted; granted {
		r.Fatalf("granted %v to one that waits", g)
	}
	if err := u.b.Abandon(r.Context(), u.claim); err != nil {
		r.Fatal(err)
	}
	queued(r, r.c, r.Name(), len(r.queue))
	return u.b
}

// marked reports whether the key of a waiter is.
func (r *ring) marked(u *turn) bool {
	r.Helper()
	got, err := r.c.Get(r.Context(), u.claim.State.(*entry).key)
	if err != nil || len(got.Kvs) != 1 {
		r.Fatal(got, err)
	}
	return got.Kvs[0].Version == marked
}

// waits fails if somebody but the first has been granted the name.
func (r *ring) waits(u *turn) {
	r.Helper()
	eventually.Is(r, "look at the queue", func() bool {
		s := u.b.watches.usable()
		s.mu.Lock()
		defer s.mu.Unlock()
		w := s.byKey[r.queue[len(r.queue)-2].claim.State.(*entry).key]
		return len(u.granted) > 0 || w != nil && w.id >= 0 && len(w.taps) > 0
	})
	if len(u.granted) > 0 {
		r.Fatalf("granted %v while another holds", <-u.granted)
	}
}

// queuesAnew fails unless the one behind u is granted the name first, and then u, which has
// waited with the create revision was and lost its place.
func (r *ring) queuesAnew(u *turn, was int64, behind *turn) {
	r.Helper()
	if g := <-behind.granted; g.Token == 0 {
		r.Fatal("the one behind it was not granted")
	}
	if len(u.granted) > 0 {
		r.Fatalf("granted %v while another holds", <-u.granted)
	}
	if err := behind.b.Release(r.Context(), behind.claim); err != nil {
		r.Fatal(err)
	}
	if g := <-u.granted; g.Token <= was {
		r.Errorf("granted %v, waited as %d", g, was)
	}
}
