package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
)

// use has two clients compete for a name.
func use(t *testing.T, name string, a, b *clientv3.Client) {
	t.Helper()
	first, second := patientLocker(t, a), patientLocker(t, b)
	lock, err := first.Acquire(t.Context(), name)
	must(t, err)
	if _, err := second.TryAcquire(t.Context(), name); !errors.Is(err, locker.ErrNotAcquired) {
		t.Fatalf("%v, want ErrNotAcquired", err)
	}
	waiting := make(chan *locker.Lock, 1)
	go func() {
		lock, err := second.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		waiting <- lock
	}()
	queueHas(t, a, name, 2)
	locktest.Release(t, lock)
	follows(t, lock, waiting)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{TLS: true, ClientCert: true})
	cfg := clientv3.Config{Endpoints: []string{e.Endpoint()}, TLS: e.TLSConfig()}
	use(t, t.Name(), dialWith(t, cfg), dialWith(t, cfg))
}

// TestPassword: with a password locks work, the server is not made to check it for
// every wait, and a token that has expired meanwhile is replaced.
func TestPassword(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{RootPassword: "secret", Args: []string{"--auth-token-ttl", "3"}})
	const life = 3 * time.Second // of a token; a late machine has to be able to log in and use it in that time
	cfg := clientv3.Config{Endpoints: []string{e.Addr()}, Username: "root", Password: "secret"}
	admin := dialWith(t, cfg)
	use(t, t.Name(), dialWith(t, cfg), dialWith(t, cfg))

	holder, b := driverOf(t, admin), driverOf(t, dialWith(t, cfg))
	since, begun := requests(t, e), time.Now()
	for i := range 10 {
		held := hold(t, holder, t.Name())
		c := claim(t.Name(), true)
		granted := begin(t, b, c)
		queueHas(t, admin, t.Name(), 2)
		release(t, holder, held)
		if err := <-granted; err != nil {
			t.Fatalf("wait %d: %v", i, err)
		}
		release(t, b, c)
	}
	most := 5 + 9*int64(time.Since(begun)/life) // of three clients; up to three goroutines of each find that a token has expired
	if _, by := since(); by["Auth/Authenticate"] > most {
		t.Errorf("10 waits, %d log-ins, want %d at most", by["Auth/Authenticate"], most)
	}

	// A long wait keeps the stream open for longer than the token lives.
	held := hold(t, holder, t.Name())
	granted := begin(t, b, claim(t.Name(), true))
	queueHas(t, admin, t.Name(), 2)
	time.Sleep(life + 1500*time.Millisecond) // the server looks once a second
	other := hold(t, holder, t.Name()+"2")
	also := begin(t, b, claim(t.Name()+"2", true))
	queueHas(t, admin, t.Name()+"2", 2)
	release(t, holder, other)
	release(t, holder, held)
	must(t, <-also, <-granted)
}

// TestNamespace: a client confined to a part of the key space stays there, and waits
// and guards there.
func TestNamespace(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	plain := dial(t, e.Addr())
	confined := func() *clientv3.Client {
		c := dial(t, e.Addr())
		c.KV = namespace.NewKV(c.KV, "tenant/")
		c.Watcher = namespace.NewWatcher(c.Watcher, "tenant/")
		c.Lease = namespace.NewLease(c.Lease, "tenant/")
		return c
	}
	a, b := confined(), confined()
	use(t, t.Name(), a, b)

	d := driverOf(t, a)
	held := hold(t, d, t.Name())
	gone := renewing(t, d, held)
	r, err := plain.Get(t.Context(), "tenant/"+d.queueOf(t.Name()), clientv3.WithPrefix())
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("keys in the name space: %v %v", r, err)
	}
	if keys := keysOf(t, plain, t.Name()); len(keys) > 0 {
		t.Errorf("keys outside: %v", keys)
	}
	if names := slices.Collect(maps.Keys(maps.Collect(d.Names(t.Context(), t.Name())))); !slices.Equal(names, []string{t.Name()}) {
		t.Errorf("names: %q", names)
	}
	remove(t, plain, string(r.Kvs[0].Key))
	soon(t, "the loss", gone)
}

func TestNewRefuses(t *testing.T) {
	closed, err := newClient(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	must(t, err)
	closed.Close()
	open, err := newClient(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	must(t, err)
	defer open.Close()
	for what, try := range map[string]func() (locker.Locker, error){
		"nil client":            func() (locker.Locker, error) { return New(nil) },
		"empty client":          func() (locker.Locker, error) { return New(&clientv3.Client{}) },
		"disconnected client":   func() (locker.Locker, error) { return New(clientv3.NewCtxClient(context.Background())) },
		"closed client":         func() (locker.Locker, error) { return New(closed) },
		"empty prefix":          func() (locker.Locker, error) { return New(open, WithPrefix("")) },
		"prefix with a mark":    func() (locker.Locker, error) { return New(open, WithPrefix("one#two/")) },
		"bad TTL":               func() (locker.Locker, error) { return New(open, locker.WithTTL(0)) },
		"option of another one": func() (locker.Locker, error) { return New(open, locker.BackendOption(func(*int) error { return nil })) },
	} {
		if l, err := try(); !errors.Is(err, locker.ErrInvalidOption) || l != nil {
			t.Errorf("%s: %v %v, want ErrInvalidOption", what, l, err)
		}
	}
	// No server is there, and none is needed yet.
	l, err := New(open, WithPrefix("team/locks"))
	must(t, err)
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPrefix: Lockers with different prefixes do not know of each other.
func TestPrefix(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	for _, l := range []locker.Locker{
		patientLocker(t, c), patientLocker(t, c, WithPrefix("one")), patientLocker(t, c, WithPrefix("one/two/")),
	} {
		if _, err := l.TryAcquire(t.Context(), t.Name()); err != nil {
			t.Error(err)
		}
	}
	r, err := c.Get(t.Context(), "one/"+t.Name()+"#", clientv3.WithPrefix())
	if err != nil || len(r.Kvs) != 1 {
		t.Errorf("%v %v", r, err)
	}
}

// TestTTL: the lease lasts as long as the server says, which counts in whole seconds and
// grants none that is too short for it.
func TestTTL(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	for asked, granted := range map[time.Duration]time.Duration{
		200 * time.Millisecond:  2 * time.Second, // one and a half election timeouts, rounded up
		2500 * time.Millisecond: 3 * time.Second,
		20 * time.Second:        20 * time.Second,
	} {
		b := driverOf(t, c, locker.WithTTL(asked))
		before := b.clock.Now()
		g := take(t, b, claim(t.Name()+asked.String(), true))
		if most, least := g.Until.Sub(before), g.Until.Sub(b.clock.Now()); most < granted || least > granted {
			t.Errorf("TTL %v: granted for %v to %v, want %v", asked, least, most, granted)
		}
	}
}

// TestOwnConnectionWithPassword: a renewal that takes a connection of its own does not get in the way of the client's
// other requests. Until 3.5.4 the client gave itself another token with each connection, while they read it.
func TestOwnConnectionWithPassword(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{RootPassword: "secret"})
	client := dialWith(t, clientv3.Config{Endpoints: []string{e.Addr()}, Username: "root", Password: "secret"})
	b := driverOf(t, client, locker.WithTTL(5*time.Minute)) // it is renewed without a pause, but not by its TTL
	held := hold(t, b, t.Name())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s, err := b.live(ctx)
	must(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				s.failing.Store(true)
				if err := b.renewSession(ctx, s); err != nil && err != errSilence {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := b.Release(ctx, held); err != nil {
		t.Error(err)
	}
}
