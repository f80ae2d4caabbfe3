package zookeeper

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	servers.AtOnce(64) // see besides
	goleak.VerifyTestMain(stopping{m}, goleak.IgnoreAnyFunction(servers.BackgroundFunc))
}

// besides bounds the tests that run beside the two suites. The suites take longer than all
// of them and wait most of the time, so that they have to begin first.
var besides = make(chan struct{}, 4)

func beside(t *testing.T) {
	t.Parallel()
	besides <- struct{}{}
	t.Cleanup(func() { <-besides })
}

type stopping struct{ m *testing.M }

func (s stopping) Run() int {
	defer func() { _ = servers.StopAll() }()
	return s.m.Run()
}

// folder is where the queues are, without a chroot.
const folder = "/locker"

func queuePath(base, name string) string { return (&backend{base: base}).queuePath(name) }

// within is a context for one test.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// raw connects and returns the driver.
func raw(t testing.TB, addrs []string, opts ...locker.Option) *backend {
	t.Helper()
	d, _, err := connect(within(t, 30*time.Second), addrs, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, d.Close) })
	return d
}

// open connects and returns the Locker.
func open(t testing.TB, addrs []string, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, _ := both(t, addrs, opts...)
	return l
}

// both returns the Locker and the driver within.
func both(t testing.TB, addrs []string, opts ...locker.Option) (locker.Locker, *backend) {
	t.Helper()
	d, cfg, err := connect(within(t, 30*time.Second), addrs, opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := locker.New(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, l.Close) })
	return l, d
}

func closing(t testing.TB, end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := end(ctx); err != nil {
		t.Logf("close: %v", err)
	}
}

func inFront(t testing.TB, addr string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

var counter atomic.Int64

// name returns a name that no other test uses.
func name(t testing.TB) string { return fmt.Sprintf("%s %d", t.Name(), counter.Add(1)) }

// claim makes a claim as the core does.
func claim(t testing.TB, name string) *driver.Claim {
	t.Helper()
	var id [16]byte
	_, _ = rand.Read(id[:])
	return &driver.Claim{
		Name: name, ID: hex.EncodeToString(id[:]), Owner: "the owner", Weight: driver.All, Limit: driver.All,
		TTL: 15 * time.Second, Wait: true,
	}
}

func (d *backend) sessionID() int64 {
	id, _ := d.session.state()
	return id
}

// granted returns the session timeout that the servers gave.
func (d *backend) granted() time.Duration {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	return d.session.timeout
}

// cut ends the connection.
func (d *backend) cut() {
	d.session.mu.Lock()
	l := d.session.newest
	d.session.mu.Unlock()
	l.fail(errors.New("by the test"))
}

// disconnected reports whether no connection is in use.
func (d *backend) disconnected() bool {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	return !d.session.connected
}

// kind makes a claim of that weight and limit.
func kind(t testing.TB, name string, weight, limit int32) *driver.Claim {
	t.Helper()
	c := claim(t, name)
	c.Weight, c.Limit = weight, limit
	return c
}

func exclusive(t testing.TB, name string) *driver.Claim { return kind(t, name, driver.All, driver.All) }
func shared(t testing.TB, name string) *driver.Claim    { return kind(t, name, 1, driver.All) }

// trying makes a claim one that does not wait.
func trying(c *driver.Claim) *driver.Claim {
	c.Wait = false
	return c
}

func taken(t testing.TB, d *backend, c *driver.Claim) {
	t.Helper()
	if g, err := d.Acquire(within(t, 30*time.Second), trying(c)); !errors.Is(err, driver.ErrTaken) {
		t.Fatalf("try: %+v, %v, want %v", g, err, driver.ErrTaken)
	}
}

func release(t testing.TB, d *backend, c *driver.Claim) {
	t.Helper()
	if err := d.Release(within(t, 30*time.Second), c); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// renewed returns what Renew reports of a claim.
func renewed(t testing.TB, d *backend, c *driver.Claim) (err error) {
	t.Helper()
	err = errors.New("not reported")
	d.Renew(within(t, 30*time.Second), []*driver.Claim{c}, func(_ *driver.Claim, _ driver.Instant, e error) { err = e })
	return err
}

func take(t testing.TB, d *backend, c *driver.Claim) driver.Grant {
	t.Helper()
	g, err := d.Acquire(within(t, 30*time.Second), c)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return g
}

// outcome is what an Acquire that was begun came to.
type outcome struct {
	grant driver.Grant
	err   error
}

// uses takes a name and gives it back; false if that failed.
func uses(t testing.TB, l locker.Locker, name string) bool {
	lock, err := l.Acquire(within(t, time.Minute), name)
	if err == nil {
		err = lock.Release(context.Background())
	}
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// begin acquires aside.
func begin(ctx context.Context, d *backend, c *driver.Claim) chan outcome {
	done := make(chan outcome, 1)
	go func() {
		g, err := d.Acquire(ctx, c)
		done <- outcome{g, err}
	}()
	return done
}

func (o outcome) ok(t testing.TB) driver.Grant {
	t.Helper()
	if o.err != nil {
		t.Fatalf("acquire: %v", o.err)
	}
	return o.grant
}

// await waits for a value.
func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: not within 20 s", what)
		panic("unreachable")
	}
}

// operator is a client of the library alone, as somebody at a console.
type operator struct {
	*zk.Conn
	t testing.TB
}

func console(t testing.TB, addr string) operator {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(quiet), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	return operator{c, t}
}

// queue waits until the queue for name looks right, woken by a watch. A queue that is
// not there is empty.
func (o operator) queue(name string, right func(children []string) bool) []string {
	o.t.Helper()
	path := queuePath(folder, name)
	deadline := time.After(20 * time.Second)
	for {
		children, _, changed, err := o.ChildrenW(path)
		if err == zk.ErrNoNode {
			var there bool
			there, _, changed, err = o.ExistsW(path)
			if there {
				continue
			}
		}
		if err != nil {
			o.t.Fatal(err)
		}
		if right(children) {
			return children
		}
		select {
		case <-changed:
		case <-deadline:
			o.t.Fatalf("queue: %q", children)
		}
	}
}

func (o operator) length(name string, n int) []string {
	o.t.Helper()
	return o.queue(name, func(all []string) bool { return len(all) == n })
}

// nodeOf waits for the node of a claim.
func (o operator) nodeOf(c *driver.Claim) string {
	o.t.Helper()
	all := o.queue(c.Name, func(all []string) bool { return ofClaim(all, c) != "" })
	return queuePath(folder, c.Name) + "/" + ofClaim(all, c)
}

// nameOf returns the name of a claim's node, but for its number.
func nameOf(c *driver.Claim) string { return entry{id: c.ID, weight: c.Weight, limit: c.Limit}.name() }

// ofClaim returns the name of a claim's node, "" if there is none.
func ofClaim(children []string, c *driver.Claim) string {
	for _, e := range parseQueue(children) {
		if e.id == c.ID {
			return e.node
		}
	}
	return ""
}

func (o operator) delete(path string) {
	o.t.Helper()
	if err := o.Delete(path, -1); err != nil {
		o.t.Fatalf("delete %s: %v", path, err)
	}
}

// plant makes an ephemeral node of the operator's own.
func (o operator) plant(path string) {
	o.t.Helper()
	if _, err := o.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		o.t.Fatalf("create %s: %v", path, err)
	}
}

var discard = slog.New(slog.DiscardHandler)

// quiet is a log of the library that nobody reads.
var quiet = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)

func word(t testing.TB, z *servers.ZooKeeper, w string) string {
	t.Helper()
	s, err := z.Word(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// carries matches a request by its operation, for the proxy.
func carries(op int32) func([]byte) bool {
	return func(b []byte) bool {
		return len(b) >= 12 && int32(binary.BigEndian.Uint32(b[8:])) == op
	}
}

const (
	opCreate      = 1
	opDelete      = 2
	opGetData     = 4
	opSync        = 9
	opPing        = 11
	opGetChildren = 12
	opMulti       = 14
)
