package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/names"
	"github.com/seed80cd6120/locker/internal/servers"
)

// dial makes a client that is closed with the test.
func dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	return dialWith(t, clientv3.Config{Endpoints: endpoints})
}

func dialWith(t testing.TB, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	c, err := newClient(cfg)
	must(t, err)
	t.Cleanup(func() { closeClient(c) })
	return c
}

// between is called instead of each request that a client makes. do makes the request, and may be called again.
type between func(ctx context.Context, method string, req, reply any, do func(reply any) error) error

// dialThrough makes a client whose requests go through each, and whose streams begin with stream.
func dialThrough(t testing.TB, endpoint string, each between, stream func(method string) error) *clientv3.Client {
	t.Helper()
	unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		do := func(reply any) error { return invoke(ctx, method, req, reply, cc, opts...) }
		if each == nil {
			return do(reply)
		}
		return each(ctx, method, req, reply, do)
	}
	begin := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if stream != nil {
			if err := stream(method); err != nil {
				return nil, err
			}
		}
		return begin(ctx, desc, cc, method, opts...)
	}
	return dialWith(t, clientv3.Config{Endpoints: []string{endpoint}, DialOptions: []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(begin),
	}})
}

// dialSeeing makes a client that shows what it is about to send on its streams, and on which, counted from 1.
func dialSeeing(t testing.TB, endpoint string, see func(stream int64, msg any)) *clientv3.Client {
	t.Helper()
	var streams atomic.Int64
	begin := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := begin(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		n := streams.Add(1)
		return seen{s, func(msg any) { see(n, msg) }}, nil
	}
	return dialWith(t, clientv3.Config{Endpoints: []string{endpoint}, DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(begin)}})
}

// seen is a stream that shows what is sent.
type seen struct {
	grpc.ClientStream
	see func(msg any)
}

func (s seen) SendMsg(msg any) error {
	s.see(msg)
	return s.ClientStream.SendMsg(msg)
}

// joins reports whether a request is a transaction about the queue of a name.
func joins(req any, name string) bool {
	txn, ok := req.(*pb.TxnRequest)
	return ok && strings.Contains(txn.String(), DefaultPrefix+names.Escape(name)+mark)
}

// closeClient closes a client; it returns after a minute at the latest. The client's Close hangs for ever if the server
// refuses a watch at that moment.
func closeClient(c *clientv3.Client) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
	}
}

func newClient(cfg clientv3.Config) (*clientv3.Client, error) {
	cfg.Logger = zap.NewNop()
	return clientv3.New(cfg)
}

var (
	front = locktest.Front
	must  = locktest.Must
	take  = locktest.Take
)

// newLocker makes a Locker that is closed with the test.
func newLocker(t testing.TB, c *clientv3.Client, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, err := New(c, opts...)
	must(t, err)
	locktest.CloseAfter(t, l.Close)
	return l
}

// patient is how long a request may go without an answer where no server falls silent for good. A machine that is late takes
// longer than a Locker waits.
const patient = time.Minute

// patientLocker makes a Locker with that patience, which is closed with the test.
func patientLocker(t testing.TB, c *clientv3.Client, opts ...locker.Option) locker.Locker {
	t.Helper()
	b, cfg, err := open(c, opts)
	must(t, err)
	b.patience = patient
	l, err := locker.New(b, cfg)
	must(t, err)
	locktest.CloseAfter(t, l.Close)
	return l
}

// lasting is a TTL that does not run out while a test lasts, in which nobody renews, unless by renewing.
const lasting = 10 * time.Minute

// driverOf opens a patient driver without the core around it, for claims that last.
func driverOf(t testing.TB, c *clientv3.Client, opts ...locker.Option) *backend {
	t.Helper()
	b, _, err := open(c, append([]locker.Option{locker.WithTTL(lasting)}, opts...))
	must(t, err)
	b.patience = patient
	locktest.CloseAfter(t, b.Close)
	return b
}

// impatient gives a driver the patience of a Locker, for servers that fall silent.
func impatient(b *backend) *backend {
	b.patience = patience
	return b
}

// renewing calls Renew as the core does until the test ends, and returns what tells of the
// claims that are gone.
func renewing(t testing.TB, b *backend, claims ...*driver.Claim) (gone <-chan *driver.Claim) {
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan *driver.Claim, len(claims))
	var mu sync.Mutex
	lost := make(map[*driver.Claim]bool)
	report := func(c *driver.Claim, _ driver.Instant, err error) {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, driver.ErrGone) && !lost[c] {
			lost[c] = true
			told <- c
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		inFlight := make(chan struct{}, 4)
		for tick := time.NewTicker(checkEvery); ; {
			select {
			case inFlight <- struct{}{}:
				all.Go(func() {
					ctx, cancel := context.WithTimeout(ctx, b.ttl/3)
					defer cancel()
					b.Renew(ctx, claims, report)
					<-inFlight
				})
			default:
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); all.Wait() })
	return told
}

// lost calls Renew once and returns the claims that it reports as gone.
func lost(t testing.TB, b *backend, claims ...*driver.Claim) (gone []*driver.Claim) {
	t.Helper()
	b.Renew(t.Context(), claims, func(c *driver.Claim, _ driver.Instant, err error) {
		if errors.Is(err, driver.ErrGone) {
			gone = append(gone, c)
		}
	})
	return gone
}

// claim makes an exclusive claim.
func claim(name string, wait bool) *driver.Claim {
	c := locktest.Claim(name, locker.DefaultTTL, wait)
	c.Spare = 5000
	return c
}

// claimOf makes a claim of weight and limit that waits.
func claimOf(name string, weight, limit int32) *driver.Claim {
	c := claim(name, true)
	c.Weight, c.Limit = weight, limit
	return c
}

// hold acquires a name that is free.
func hold(t testing.TB, b *backend, name string) *driver.Claim {
	t.Helper()
	c := claim(name, true)
	take(t, b, c)
	return c
}

// begin has a goroutine acquire what c asks for.
func begin(t testing.TB, b *backend, c *driver.Claim) (granted <-chan error) {
	outcome := make(chan error, 1)
	go func() { _, err := b.Acquire(t.Context(), c); outcome <- err }()
	return outcome
}

// soon receives from a channel, or ends the test.
func soon[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	return locktest.Receive(t, what, c, 30*time.Second)
}

// insistently calls do, and again while no server or leader answers, and then what it is to remove may be gone.
func insistently(do func() error) error {
	err := do()
	var e rpctypes.EtcdError
	for errors.Is(err, errSilence) || errors.As(err, &e) && e.Code() == codes.Unavailable {
		if err = do(); errors.Is(err, driver.ErrGone) {
			err = nil
		}
	}
	return err
}

// release releases a claim as the core does.
func release(t testing.TB, b *backend, c *driver.Claim) {
	t.Helper()
	if err := insistently(func() error { return b.Release(t.Context(), c) }); err != nil {
		t.Error(err)
	}
}

// abandon cleans up after a claim as the core does, or ends the test.
func abandon(t testing.TB, b *backend, c *driver.Claim) {
	t.Helper()
	must(t, insistently(func() error { return b.Abandon(t.Context(), c) }))
}

// evict evicts the claim with this ID as an operator does, or ends the test.
func evict(t testing.TB, b *backend, name, id string) {
	t.Helper()
	must(t, insistently(func() error { return b.Evict(t.Context(), name, id) }))
}

// put puts a key, or ends the test.
func put(t testing.TB, c *clientv3.Client, key, value string) {
	t.Helper()
	must(t, insistently(func() error { _, err := c.Put(t.Context(), key, value); return err }))
}

// remove deletes keys, or ends the test.
func remove(t testing.TB, c *clientv3.Client, key string, opts ...clientv3.OpOption) {
	t.Helper()
	must(t, insistently(func() error { _, err := c.Delete(t.Context(), key, opts...); return err }))
}

// keysOf lists the keys of a name, the oldest first.
func keysOf(t testing.TB, c *clientv3.Client, name string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := c.Get(ctx, DefaultPrefix+names.Escape(name)+mark, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	must(t, err)
	var keys []string
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// queueHas waits until n keys of a name are there.
func queueHas(t testing.TB, c *clientv3.Client, name string, n int) []string {
	t.Helper()
	var keys []string
	eventually.Is(t, "queue", func() bool { keys = keysOf(t, c, name); return len(keys) == n })
	return keys
}

// requests counts what the server handled between two calls, without renewals.
func requests(t testing.TB, e *servers.Etcd) (since func() (sum int64, by map[string]int64)) {
	t.Helper()
	count := func() map[string]int64 {
		m, err := e.Methods(context.Background())
		must(t, err)
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
