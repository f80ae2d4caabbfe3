package etcd

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/names"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// dial makes a client that is closed with the test.
func dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	return dialWith(t, clientv3.Config{Endpoints: endpoints})
}

func dialWith(t testing.TB, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	c, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func newClient(cfg clientv3.Config) (*clientv3.Client, error) {
	cfg.Logger = zap.NewNop()
	return clientv3.New(cfg)
}

// front puts a proxy before a server.
func front(t testing.TB, addr string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// newLocker makes a Locker that is closed with the test.
func newLocker(t testing.TB, c *clientv3.Client, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, err := New(c, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = l.Close(ctx)
	})
	return l
}

// next has a Locker wait for a name. What comes from the channel is nil if that failed.
func next(t testing.TB, l locker.Locker, name string) <-chan *locker.Lock {
	locks := make(chan *locker.Lock, 1)
	go func() {
		lock, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Error(err)
		}
		locks <- lock
	}()
	return locks
}

// follows waits for the one who had to wait for lock, who then gives it back.
func follows(t testing.TB, lock *locker.Lock, next <-chan *locker.Lock) {
	t.Helper()
	l := <-next
	if l == nil {
		t.FailNow()
	}
	if l.Token() <= lock.Token() {
		t.Errorf("token %d after %d", l.Token(), lock.Token())
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// under lists the keys of a name, the oldest first.
func under(t testing.TB, c *clientv3.Client, name string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := c.Get(ctx, DefaultPrefix+names.Escape(name)+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// queued waits until n keys of a name are there.
func queued(t testing.TB, c *clientv3.Client, name string, n int) []string {
	t.Helper()
	var keys []string
	eventually.Is(t, "queue", func() bool { keys = under(t, c, name); return len(keys) == n })
	return keys
}

// requests counts what the server handled between two calls, without renewals.
func requests(t testing.TB, e *servers.Etcd) (since func() (sum int64, by map[string]int64)) {
	t.Helper()
	count := func() map[string]int64 {
		m, err := e.Methods(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := count()
	return func() (int64, map[string]int64) {
		var sum int64
		by := make(map[string]int64)
		for method, n := range count() {
			if n -= before[method]; n != 0 && !strings.HasSuffix(method, "/LeaseKeepAlive") {
				by[method] = n
				sum += n
			}
		}
		return sum, by
	}
}

// rests waits until nobody has asked the server for anything for a while: who waits has yet to
// look after its watch began.
func rests(t testing.TB, e *servers.Etcd) {
	t.Helper()
	eventually.Is(t, "rest", func() bool {
		since := requests(t, e)
		time.Sleep(2 * guardAfter)
		n, _ := since()
		return n == 0
	})
}

func httpGet(t testing.TB, url string) string {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// driverOf opens a driver without the core around it.
func driverOf(t testing.TB, c *clientv3.Client, opts ...locker.Option) *backend {
	t.Helper()
	b, _, err := open(c, opts)
	if err != nil {
		t.Fatal(err)
	}
	b.impatient(10 * time.Second) // nobody here asks again, as the core does
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = b.Close(ctx)
	})
	return b
}

// impatient fixes how long a request may take.
func (b *backend) impatient(d time.Duration) { b.patience.least, b.patience.most = d, d }

var claims struct {
	sync.Mutex
	n int
}

func claim(name string, wait bool) *driver.Claim {
	claims.Lock()
	defer claims.Unlock()
	claims.n++
	return &driver.Claim{Name: name, ID: fmt.Sprintf("%032x", claims.n), Owner: "test", TTL: locker.DefaultTTL, Wait: wait}
}

// take acquires a name that is free.
func take(t testing.TB, b *backend, name string) *driver.Claim {
	t.Helper()
	c, _ := hold(t, b, name)
	return c
}

// hold is take for a test that wants to know why the lock is lost.
func hold(t testing.TB, b *backend, name string) (c *driver.Claim, lost <-chan error) {
	t.Helper()
	c = claim(name, true)
	reasons := make(chan error, 10)
	c.Lost = func(reason error) { reasons <- reason }
	if _, err := b.Acquire(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c, reasons
}

// begin has a goroutine acquire what c asks for.
func begin(t testing.TB, b *backend, c *driver.Claim) (granted <-chan error) {
	outcome := make(chan error, 1)
	go func() { _, err := b.Acquire(t.Context(), c); outcome <- err }()
	return outcome
}

// guarded waits until the keys of claims are watched.
func guarded(t testing.TB, b *backend, claims ...*driver.Claim) {
	t.Helper()
	eventually.Is(t, "guarded", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return !slices.ContainsFunc(claims, func(c *driver.Claim) bool { return c.State.(*entry).guard == nil })
	})
}

// keep calls Renew as the core does, until the test ends.
func keep(t testing.TB, b *backend) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			b.Renew(ctx, nil, nil)
			select {
			case <-time.After(checkEvery):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func revision(t testing.TB, c *clientv3.Client) int64 {
	t.Helper()
	r, err := c.Get(context.Background(), "nothing")
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}
