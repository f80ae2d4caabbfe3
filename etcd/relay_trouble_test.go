package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// TestRelayWithoutAnswer: whether the transaction came through, did not, or does so only
// later, the lock is released, and the next goes on or is cleaned up after.
func TestRelayWithoutAnswer(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"request", "answer", "late"} {
		for _, then := range []string{"acquire", "abandon"} {
			t.Run(lost+", "+then, func(t *testing.T) {
				t.Parallel()
				w := newPair(t, servers.SharedEtcd(t))
				var late func() error
				w.post.next(func(_ context.Context, send func() error) error {
					switch lost {
					case "answer":
						_ = send()
					case "late":
						late = send
					}
					return errLost
				})
				if err := w.relay(true); err == nil || errors.Is(err, driver.ErrGone) {
					t.Fatal(err)
				}
				var next <-chan error
				if then == "acquire" {
					next = begin(t, w.b, w.next)
					queued(t, w.c, w.name, map[string]int{"answer": 2, "request": 3, "late": 3}[lost])
					eventually.Is(t, "known", func() bool { return own(w.next).rev.Load() > 0 })
				} else {
					w.is(w.b.Abandon(t.Context(), w.next), nil)
				}
				if late != nil {
					w.is(late(), nil)
					if keys := under(t, w.c, w.name); keys[0] != own(w.held).key {
						t.Fatalf("what came late has released it: %v", keys)
					}
				}
				if err := w.b.Release(t.Context(), w.held); err != nil && !errors.Is(err, driver.ErrGone) {
					t.Fatal(err)
				}
				if then == "acquire" {
					w.turns(w.granted, next)
				} else {
					w.turns(w.granted)
				}
			})
		}
	}
}

// TestRelayGivenUp: who is taken along and no longer wanted leaves nothing.
func TestRelayGivenUp(t *testing.T) {
	t.Parallel()
	w := newPair(t, servers.SharedEtcd(t))
	w.is(w.relay(true), nil)
	w.is(w.b.Abandon(t.Context(), w.next), nil)
	w.is(<-w.granted, nil)
	// And is not taken for one that follows.
	w.held, w.next = w.waiter, claim(w.name, true)
	w.is(w.relay(false), nil)
	w.nothingLeft()
}

// TestRelayRefused: where the transaction does nothing there is an ordinary release.
func TestRelayRefused(t *testing.T) {
	t.Parallel()
	put := func(w *crew, key string) {
		w.Helper()
		if _, err := w.c.Put(w.Context(), key, "by hand"); err != nil {
			w.Fatal(err)
		}
	}
	for what, do := range map[string]func(*crew){
		"fence moved": func(w *crew) { put(w, w.b.session.Load().fence) },
		"key used":    func(w *crew) { put(w, w.b.ownIn(w.b.queueOf(w.name))+"2") },
		"key deleted": func(w *crew) {
			if _, err := w.c.Delete(w.Context(), own(w.held).key); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newPair(t, servers.SharedEtcd(t))
			do(w)
			err := w.relay(false)
			if what == "key deleted" {
				w.is(err, driver.ErrGone)
			} else {
				w.is(err, nil)
			}
			w.is(<-w.granted, nil)
			w.is(w.b.Release(t.Context(), w.waiter), nil)
			if what == "key used" {
				for _, key := range queued(t, w.c, w.name, 1) {
					if _, err := w.c.Delete(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.turns(begin(t, w.b, w.next))
		})
	}
}

// TestRelayPlaceLost: if the one that follows is no longer there, the next is the first.
func TestRelayPlaceLost(t *testing.T) {
	t.Parallel()
	w := newPair(t, servers.SharedEtcd(t))
	if _, err := w.c.Delete(t.Context(), own(w.waiter).key); err != nil {
		t.Fatal(err)
	}
	w.is(w.relay(true), nil)
	next := begin(t, w.b, w.next)
	queued(t, w.c, w.name, 2)
	w.turns(next, w.granted)
	if own(w.next).joined.rev > 0 {
		t.Error("the place is not used only once")
	}
}

// TestRelayLeaseGone: what the server has taken away is not said to be released, and nobody
// joins under a lease that is gone.
func TestRelayLeaseGone(t *testing.T) {
	t.Parallel()
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprint("own lease ", leased), func(t *testing.T) {
			t.Parallel()
			w := newCrew(t, servers.SharedEtcd(t))
			if leased {
				w.is(w.b.Release(t.Context(), w.held), nil)
				w.held = claim(w.name, true)
				w.held.Lease = true
				w.is(<-begin(t, w.b, w.held), nil)
			}
			w.wait()
			w.isFollowed(w.held)
			s := w.b.session.Load()
			if _, err := w.c.Revoke(t.Context(), s.lease); err != nil {
				t.Fatal(err)
			}
			err := w.relay(false)
			if leased {
				w.is(err, nil)
				if !s.isGone() {
					t.Error("the session goes on")
				}
			} else {
				w.is(err, driver.ErrGone)
			}
			w.turns(w.granted)
		})
	}
}

// TestRelayLeased: claims with a lease of their own are taken along, and release others,
// like all.
func TestRelayLeased(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	w := newPair(t, e)
	w.next.Lease = true
	w.is(w.relay(true), nil)
	next := begin(t, w.b, w.next)
	w.is(<-w.granted, nil)
	w.is(w.b.Release(t.Context(), w.waiter), nil)
	w.is(<-next, nil)
	w.held, w.waiter, w.next = w.next, claim(w.name, true), claim(w.name, true)
	w.wait()
	w.isFollowed(w.held)
	w.is(w.relay(true), nil)
	if n := leases(t, w.c); n != 1 {
		t.Errorf("%d leases, want the session's", n)
	}
	w.turns(w.granted, begin(t, w.b, w.next))
}

// TestRelayNoSpace: without space the lock is released, and the next is told why it does not
// get it. etcd may say so only after it was done.
func TestRelayNoSpace(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		t.Run(map[bool]string{false: "new", true: "old"}[old], func(t *testing.T) {
			t.Parallel()
			e := servers.NewEtcd(t, servers.EtcdOptions{Old: old, Args: []string{"--quota-backend-bytes", "2097152"}})
			w := newPair(t, e)
			var err error
			for block := strings.Repeat("x", 200<<10); err == nil; {
				_, err = w.c.Put(t.Context(), "fill", block)
			}
			w.is(err, rpctypes.ErrNoSpace)
			w.is(w.relay(true), nil)
			w.is(<-w.granted, nil)
			w.is(<-begin(t, w.b, w.next), rpctypes.ErrNoSpace)
			w.is(w.b.Abandon(t.Context(), w.next), nil)
			w.is(w.b.Release(t.Context(), w.waiter), nil)
			w.nothingLeft()
		})
	}
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		w := newPair(t, servers.SharedEtcd(t))
		w.post.next(func(_ context.Context, send func() error) error {
			if err := send(); err != nil {
				return err
			}
			return rpctypes.ErrGRPCNoSpace
		})
		w.is(w.relay(true), nil)
		w.turns(w.granted, begin(t, w.b, w.next))
	})
}

// TestRelayOfMarked: a marked key is deleted in no other way than the mark says, also where the next
// could be taken along; or else one that expected it would hold the name, although its own key
// is gone and somebody else is the first.
func TestRelayOfMarked(t *testing.T) {
	t.Parallel()
	r := newRing(t, servers.SharedEtcd(t), 2)
	first, u := r.queue[0], r.queue[1]
	if !own(first.claim).marked || !r.marked(first) {
		t.Fatal("not marked: this shows nothing")
	}
	mine := claim(t.Name(), true)
	granted := begin(t, first.b, mine)
	queued(t, r.c, t.Name(), 3)
	was := own(u.claim).rev.Load()
	if _, err := r.c.Delete(t.Context(), own(u.claim).key); err != nil {
		t.Fatal(err)
	}
	eventually.Is(t, "followed", func() bool { followed, _, _ := first.b.behind(own(first.claim)); return followed })
	joined := func() { t.Error("taken along") }
	if err := first.b.Relay(t.Context(), first.claim, claim(t.Name(), true), joined); err != nil {
		t.Error(err)
	}
	if err := <-granted; err != nil {
		t.Fatal(err)
	}
	queued(t, r.c, t.Name(), 2) // it has queued anew
	if len(u.granted) > 0 {
		t.Fatal("two hold")
	}
	if err := first.b.Release(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if g := <-u.granted; g.Token <= was {
		t.Errorf("granted %v, waited as %d", g, was)
	}
}

// TestRelayAtRandom: many goroutines of one Locker, some of which give up, and now and then one of
// another; some requests and some answers are lost. Nobody holds the name beside another, the
// tokens grow, whoever is patient has it, and in the end nothing is left.
func TestRelayAtRandom(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	var relays, lost, grants, last atomic.Int64
	var holds atomic.Int32
	trouble := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		r, ok := req.(*pb.TxnRequest)
		if !ok {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		if len(r.Success) == 3 && r.Success[0].GetRequestDeleteRange() != nil {
			relays.Add(1)
		}
		fate := rand.N(100)
		if fate < 2 {
			lost.Add(1)
			return errLost
		}
		err := invoke(ctx, method, req, reply, cc, opts...)
		if fate < 4 {
			lost.Add(1)
			return errLost
		}
		return err
	}
	l := newLocker(t, dialWith(t, clientv3.Config{
		Endpoints:   []string{e.Addr()},
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(trouble)},
	}))
	other := newLocker(t, admin)
	var wg sync.WaitGroup
	until := time.Now().Add(3 * time.Second)
	want := func(l locker.Locker, patience func() time.Duration) {
		for time.Now().Before(until) {
			wait := patience()
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			lock, err := l.Acquire(ctx, t.Name())
			cancel()
			if err != nil {
				if wait == time.Minute {
					t.Error(err)
				}
				continue
			}
			grants.Add(1)
			if holds.Add(1) != 1 || last.Swap(lock.Token()) >= lock.Token() {
				t.Errorf("granted %d while another holds, or after", lock.Token())
			}
			if rand.N(4) == 0 {
				time.Sleep(rand.N(2 * time.Millisecond))
			}
			holds.Add(-1)
			if err := lock.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	for i := range 12 {
		wg.Go(func() {
			want(l, func() time.Duration {
				if i%2 == 0 && rand.N(5) == 0 {
					return rand.N(20 * time.Millisecond)
				}
				return time.Minute
			})
		})
	}
	wg.Go(func() {
		want(other, func() time.Duration { time.Sleep(rand.N(50 * time.Millisecond)); return time.Minute })
	})
	wg.Wait()
	if relays.Load() == 0 {
		t.Error("nobody was taken along: this shows nothing")
	}
	t.Logf("%d grants, %d relays, %d requests or answers lost", grants.Load(), relays.Load(), lost.Load())
	queued(t, admin, t.Name(), 0)
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
