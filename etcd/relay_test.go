package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// crew is one Locker that holds a name and wants it again.
type crew struct {
	*testing.T
	c       *clientv3.Client // another one's
	b       *backend
	name    string
	held    *driver.Claim
	waiter  *driver.Claim
	granted <-chan error // the waiter's
	next    *driver.Claim
	post    *post
}

// post does something about the next transaction of a client, if that is set.
type post struct {
	atomic.Pointer[func(ctx context.Context, send func() error) error]
}

func (p *post) next(do func(ctx context.Context, send func() error) error) { p.Store(&do) }

func (p *post) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, ok := req.(*pb.TxnRequest); ok {
		if do := p.Swap(nil); do != nil {
			return (*do)(ctx, func() error {
				return invoke(context.WithoutCancel(ctx), method, req, reply, cc, opts...)
			})
		}
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

var errLost = status.Error(codes.Unavailable, "lost on the way")

// newCrew makes one whose waiter is to be let in between.
func newCrew(t *testing.T, e *servers.Etcd) *crew {
	t.Helper()
	w := &crew{T: t, c: dial(t, e.Addr()), name: t.Name(), post: &post{}}
	w.b = driverOf(t, dialWith(t, clientv3.Config{
		Endpoints:   []string{e.Addr()},
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(w.post.intercept)},
	}))
	w.held, w.waiter, w.next = take(t, w.b, w.name), claim(w.name, true), claim(w.name, true)
	return w
}

// newPair makes one whose waiter stands directly behind the holder.
func newPair(t *testing.T, e *servers.Etcd) *crew {
	t.Helper()
	w := newCrew(t, e)
	w.wait()
	w.isFollowed(w.held)
	return w
}

// wait has the waiter join.
func (w *crew) wait() {
	w.Helper()
	n := len(under(w, w.c, w.name))
	w.granted = begin(w, w.b, w.waiter)
	queued(w, w.c, w.name, n+1)
}

func (w *crew) isFollowed(c *driver.Claim) {
	w.Helper()
	eventually.Is(w, "followed", func() bool { followed, _, _ := w.b.behind(own(c)); return followed })
}

// relay releases the lock and fails unless the next is taken along, or is not.
func (w *crew) relay(want bool) error {
	w.Helper()
	joined := false
	err := w.b.Relay(w.Context(), w.held, w.next, func() { joined = true })
	if joined != want {
		w.Fatalf("taken along: %v, %v", joined, err)
	}
	if !joined && w.next.State != nil {
		w.Error("not taken along, but known")
	}
	return err
}

// is fails unless the error is the one wanted.
func (w *crew) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("%v, want %v", err, want)
	}
}

// turns waits until each is granted, in this order, and releases it.
func (w *crew) turns(all ...<-chan error) {
	w.Helper()
	var last int64
	for i, granted := range all {
		w.is(<-granted, nil)
		for _, other := range all[i+1:] {
			if len(other) > 0 {
				w.Fatalf("%d. of %d: another is granted too", i, len(all))
			}
		}
		first, err := w.c.Get(w.Context(), w.b.queueOf(w.name), clientv3.WithFirstCreate()...)
		if err != nil || len(first.Kvs) != 1 || first.Kvs[0].CreateRevision <= last {
			w.Fatalf("%d. of %d: %v %v", i, len(all), first, err)
		}
		last = first.Kvs[0].CreateRevision
		released := false
		for _, c := range []*driver.Claim{w.waiter, w.next} {
			if e := own(c); e != nil && e.key == string(first.Kvs[0].Key) {
				w.is(w.b.Release(w.Context(), c), nil)
				released = true
			}
		}
		if !released {
			w.Fatalf("%d. of %d: %s is the first", i, len(all), first.Kvs[0].Key)
		}
	}
	w.nothingLeft()
}

// nothingLeft fails if something is, on the server or here.
func (w *crew) nothingLeft() {
	w.Helper()
	queued(w, w.c, w.name, 0)
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	if len(w.b.entries)+len(w.b.queued)+len(w.b.coming) > 0 {
		w.Errorf("left: %v %v %v", w.b.entries, w.b.queued, w.b.coming)
	}
	if e := own(w.held); e.next != nil {
		w.Error("who is released holds on to all who came later")
	}
}

// TestRelay: where many of one Locker want a name, each costs one request.
func TestRelay(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		t.Run(map[bool]string{false: "new", true: "old"}[old], func(t *testing.T) {
			t.Parallel()
			e := servers.NewEtcd(t, servers.EtcdOptions{Old: old})
			w := newPair(t, e)
			since := requests(t, e)
			const relays = 10
			for range relays {
				w.is(w.relay(true), nil)
				w.is(<-w.granted, nil)
				w.held, w.waiter, w.next = w.waiter, w.next, claim(w.name, true)
				w.granted = begin(t, w.b, w.waiter)
			}
			if n, by := since(); n != relays {
				t.Errorf("%d requests for %d acquisitions: %v", n, relays, by)
			}
			if keys := under(t, w.c, w.name); !slices.Equal(keys, []string{own(w.held).key, own(w.waiter).key}) {
				t.Errorf("in the queue: %v", keys)
			}
			w.is(w.b.Release(t.Context(), w.held), nil)
			w.turns(w.granted)
		})
	}
}

// TestRelayBeforeAcquire: who is taken along counts as one that waits, even if it has yet to ask.
func TestRelayBeforeAcquire(t *testing.T) {
	t.Parallel()
	w := newPair(t, servers.SharedEtcd(t))
	w.is(w.relay(true), nil)
	w.is(<-w.granted, nil)
	w.held, w.waiter, w.next = w.waiter, w.next, claim(w.name, true)
	w.is(w.relay(true), nil)
	w.turns(begin(t, w.b, w.waiter), begin(t, w.b, w.next))
}

// TestRelayBehindOthers: who is taken along joins behind all who are there.
func TestRelayBehindOthers(t *testing.T) {
	t.Parallel()
	for others := range 4 {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			t.Parallel()
			w := newPair(t, servers.SharedEtcd(t))
			var last <-chan error
			for i := range others {
				b := driverOf(t, w.c)
				c, before := claim(w.name, true), last
				granted := begin(t, b, c)
				queued(t, w.c, w.name, i+3)
				outcome := make(chan error, 1)
				last = outcome
				go func() {
					err := <-granted
					if before != nil {
						err = errors.Join(err, <-before)
					}
					outcome <- errors.Join(err, b.Release(t.Context(), c))
				}()
			}
			w.is(w.relay(true), nil)
			granted := begin(t, w.b, w.next)
			w.is(<-w.granted, nil)
			if len(granted) > 0 {
				t.Error("two hold")
			}
			w.is(w.b.Release(t.Context(), w.waiter), nil)
			if last != nil {
				w.is(<-last, nil)
			}
			w.turns(granted)
		})
	}
}

// TestRelayNextIsInPlaceFirst: the one that the name goes to learns of it when the next is said to be
// in its place, not before.
func TestRelayNextIsInPlaceFirst(t *testing.T) {
	t.Parallel()
	w := newPair(t, servers.SharedEtcd(t))
	joined := false
	w.is(w.b.Relay(w.Context(), w.held, w.next, func() {
		joined = true
		select {
		case <-w.granted:
			t.Fatal("granted before")
		case <-time.After(50 * time.Millisecond):
		}
	}), nil)
	if !joined {
		t.Error("not taken along")
	}
	w.turns(w.granted, begin(t, w.b, w.next))
}

// TestRelayTellsTheFirst: and nobody else, although more of the same Locker wait.
func TestRelayTellsTheFirst(t *testing.T) {
	t.Parallel()
	w := newPair(t, servers.SharedEtcd(t))
	var all []<-chan error
	for i, b := range []*backend{driverOf(t, w.c), w.b, w.b, driverOf(t, w.c)} {
		all = append(all, begin(t, b, claim(w.name, true)))
		queued(t, w.c, w.name, i+3)
	}
	w.is(w.relay(true), nil)
	w.is(<-w.granted, nil)
	time.Sleep(50 * time.Millisecond)
	for _, granted := range all {
		if len(granted) > 0 {
			t.Error("two hold")
		}
	}
}

// TestRelayTakesNobody: who follows nobody of this Locker is not taken along, and comes later.
func TestRelayTakesNobody(t *testing.T) {
	t.Parallel()
	join := func(w *crew, place int) (b *backend, c *driver.Claim, granted <-chan error) {
		b, c = driverOf(w, w.c), claim(w.name, true)
		granted = begin(w, b, c)
		queued(w, w.c, w.name, place)
		return b, c, granted
	}
	t.Run("nobody there", func(t *testing.T) {
		w := newCrew(t, servers.SharedEtcd(t))
		w.is(w.relay(false), nil)
		w.turns(begin(t, w.b, w.next))
	})
	t.Run("another between", func(t *testing.T) {
		w := newCrew(t, servers.SharedEtcd(t))
		b, c, granted := join(w, 2)
		w.wait()
		w.is(w.relay(false), nil)
		w.is(<-granted, nil)
		next := begin(t, w.b, w.next)
		queued(t, w.c, w.name, 3)
		w.is(b.Release(t.Context(), c), nil)
		w.turns(w.granted, next)
	})
	t.Run("given up", func(t *testing.T) {
		w := newPair(t, servers.SharedEtcd(t))
		w.is(w.b.Abandon(t.Context(), w.waiter), nil)
		w.is(w.relay(false), nil)
		w.turns(begin(t, w.b, w.next))
	})
	t.Run("queued anew", func(t *testing.T) {
		w := newPair(t, servers.SharedEtcd(t))
		b, c, granted := join(w, 3)
		was := own(w.waiter).rev.Load()
		if _, err := w.c.Delete(t.Context(), own(w.waiter).key); err != nil {
			t.Fatal(err)
		}
		own(w.waiter).head <- struct{}{} // has it look
		eventually.Is(t, "queued anew", func() bool { return own(w.waiter).rev.Load() > was })
		w.is(w.relay(false), nil)
		w.is(<-granted, nil)
		w.is(b.Release(t.Context(), c), nil)
		w.is(<-w.granted, nil)
		w.is(w.b.Release(t.Context(), w.waiter), nil)
		w.turns(begin(t, w.b, w.next))
	})
}

// TestRelayAwaitsTheJoining: a release waits for who is on the way to the queue, but not for
// longer than that one, nor than its own caller wants, and not at all if others are there.
func TestRelayAwaitsTheJoining(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"joins", "fails", "release given up", "others were met"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newCrew(t, servers.SharedEtcd(t))
			let, sent := make(chan error), make(chan struct{})
			w.post.next(func(ctx context.Context, send func() error) error {
				close(sent)
				if err := <-let; err != nil {
					return err
				}
				return send()
			})
			w.granted = begin(t, w.b, w.waiter)
			<-sent
			if how == "others were met" {
				w.b.habits[own(w.held).queue] = habit{}
				w.is(w.relay(false), nil)
				close(let)
				w.turns(w.granted)
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			type outcome struct {
				joined bool
				err    error
			}
			relayed := make(chan outcome, 1)
			go func() {
				var o outcome
				o.err = w.b.Relay(ctx, w.held, w.next, func() { o.joined = true })
				relayed <- o
			}()
			select {
			case o := <-relayed:
				t.Fatalf("did not wait: %v", o)
			case <-time.After(50 * time.Millisecond):
			}
			switch how {
			case "joins":
				close(let)
				o := <-relayed
				w.is(o.err, nil)
				if !o.joined {
					t.Fatal("not taken along")
				}
				w.turns(w.granted, begin(t, w.b, w.next))
			case "fails":
				let <- errLost
				if o := <-relayed; o.joined || o.err != nil {
					t.Error(o)
				}
				w.turns(w.granted)
			case "release given up":
				cancel()
				if o := <-relayed; o.joined || !errors.Is(o.err, context.Canceled) {
					t.Error(o)
				}
				close(let)
				w.is(w.b.Release(t.Context(), w.held), nil)
				w.turns(w.granted)
			}
		})
	}
}
