package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/leaks"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	servers.AtOnce(64) // see besides
	leaks.Main(m)
}

// besides bounds the tests that run beside the two suites. The suites take longer than all
// of them and wait most of the time, so that they have to begin first.
var besides = make(chan struct{}, 4)

func beside(t *testing.T) {
	t.Parallel()
	besides <- struct{}{}
	t.Cleanup(func() { <-besides })
}

// lone is a server, or an ensemble, that all tests of the binary use, but one at a time: what is asked of it can be
// counted. Who breaks it mends it.
type lone[T any] struct {
	start   func(context.Context) (T, error)
	started bool
	servers T
	turn    sync.Mutex
}

func startOne(opts servers.ZooKeeperOptions) func(context.Context) (*servers.ZooKeeper, error) {
	return func(ctx context.Context) (*servers.ZooKeeper, error) { return servers.StartZooKeeper(ctx, opts) }
}

var (
	// counted allows sessions of an hour, which send no pings for minutes.
	counted = lone[*servers.ZooKeeper]{start: startOne(servers.ZooKeeperOptions{Config: map[string]string{"maxSessionTimeout": "3600000"}})}

	// reaped removes empty queues soon.
	reaped = lone[*servers.ZooKeeper]{start: startOne(servers.ZooKeeperOptions{Properties: map[string]string{
		"znode.container.checkIntervalMs": "300", "znode.container.maxPerMinute": "10000000",
	}})}

	ensemble = lone[*servers.ZooKeeperEnsemble]{start: func(ctx context.Context) (*servers.ZooKeeperEnsemble, error) {
		return servers.StartZooKeeperEnsemble(ctx, 3, servers.ZooKeeperOptions{})
	}}
)

// beside has the test run beside others, but not beside another that uses the same servers, which it returns.
func (l *lone[T]) beside(t *testing.T) T {
	t.Helper()
	servers.Need(t)
	t.Parallel()
	l.turn.Lock()
	t.Cleanup(l.turn.Unlock)
	besides <- struct{}{}
	t.Cleanup(func() { <-besides })
	if !l.started {
		var err error
		if l.servers, err = l.start(context.Background()); err != nil {
			t.Fatal(err)
		}
		l.started = true
	}
	return l.servers
}

// folder is where the queues are, without a chroot.
const folder = "/locker"

func queuePath(base, name string) string { return (&backend{base: base}).queuePath(name) }

var (
	must   = locktest.Must
	within = locktest.Within
	front  = locktest.Front
	freed  = locktest.Freed
)

// lasting makes sessions outlive what a machine is late by, unless a test names another TTL.
var lasting = []locker.Option{locker.WithTTL(time.Minute)}

// raw connects and returns the driver.
func raw(t testing.TB, addrs []string, opts ...locker.Option) *backend {
	t.Helper()
	d, _, err := connect(within(t, 2*time.Minute), addrs, append(lasting, opts...))
	must(t, err)
	locktest.CloseAfter(t, d.Close)
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
	d, cfg, err := connect(within(t, 2*time.Minute), addrs, append(lasting, opts...))
	must(t, err)
	l, err := locker.New(d, cfg)
	must(t, err)
	locktest.CloseAfter(t, l.Close)
	return l, d
}

var counter atomic.Int64

// name returns a name that no other test uses.
func name(t testing.TB) string { return fmt.Sprintf("%s %d", t.Name(), counter.Add(1)) }

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

// disconnected reports whether no connection is in use.
func (d *backend) disconnected() bool {
	d.session.mu.Lock()
	defer d.session.mu.Unlock()
	return !d.session.connected
}

// uses takes a name and gives it back; false if that failed.
func uses(t testing.TB, l locker.Locker, name string) bool {
	lock, err := l.Acquire(within(t, time.Minute), name)
	if err == nil {
		err = freed(context.Background(), lock)
	}
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// await waits for a value.
func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	return locktest.Receive(t, what, c, 20*time.Second)
}

var discard = slog.New(slog.DiscardHandler)

func word(t testing.TB, z *servers.ZooKeeper, w string) string {
	t.Helper()
	s, err := z.Word(within(t, time.Minute), w)
	must(t, err)
	return s
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
