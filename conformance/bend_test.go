package conformance

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// bent is a driver with a defect: methods that are nil are those of the sound one.
type bent struct {
	driver.Driver
	traits  func(*driver.Traits)
	acquire func(next driver.Driver, ctx context.Context, c *driver.Claim) (driver.Grant, error)
	renew   func(next driver.Driver, ctx context.Context, claims []*driver.Claim, report report)
	release func(next driver.Driver, ctx context.Context, c *driver.Claim) error
	abandon func(next driver.Driver, ctx context.Context, c *driver.Claim) error
	linger  func(next driver.Driver, ctx context.Context, c *driver.Claim, d time.Duration) error
	lighten func(next driver.Driver, ctx context.Context, c *driver.Claim, weight int32) error
	look    func(next driver.Driver, ctx context.Context, name string) ([]driver.Position, error)
	names   func(next driver.Driver, ctx context.Context, prefix string) iter.Seq2[string, error]
	evict   func(next driver.Driver, ctx context.Context, name, id string) error
}

type report = func(*driver.Claim, driver.Instant, error)

func (b *bent) Traits() driver.Traits {
	t := b.Driver.Traits()
	if b.traits != nil {
		b.traits(&t)
	}
	return t
}

func (b *bent) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	if b.acquire != nil {
		return b.acquire(b.Driver, ctx, c)
	}
	return b.Driver.Acquire(ctx, c)
}

func (b *bent) Renew(ctx context.Context, claims []*driver.Claim, report report) {
	if b.renew != nil {
		b.renew(b.Driver, ctx, claims, report)
		return
	}
	b.Driver.Renew(ctx, claims, report)
}

func (b *bent) Release(ctx context.Context, c *driver.Claim) error {
	if b.release != nil {
		return b.release(b.Driver, ctx, c)
	}
	return b.Driver.Release(ctx, c)
}

func (b *bent) Abandon(ctx context.Context, c *driver.Claim) error {
	if b.abandon != nil {
		return b.abandon(b.Driver, ctx, c)
	}
	return b.Driver.Abandon(ctx, c)
}

func (b *bent) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	if b.linger != nil {
		return b.linger(b.Driver, ctx, c, d)
	}
	return b.Driver.(driver.Lingerer).Linger(ctx, c, d)
}

func (b *bent) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	if b.lighten != nil {
		return b.lighten(b.Driver, ctx, c, weight)
	}
	return b.Driver.(driver.Weigher).Lighten(ctx, c, weight)
}

func (b *bent) Look(ctx context.Context, name string) ([]driver.Position, error) {
	if b.look != nil {
		return b.look(b.Driver, ctx, name)
	}
	return b.Driver.(driver.Inspector).Look(ctx, name)
}

func (b *bent) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if b.names != nil {
		return b.names(b.Driver, ctx, prefix)
	}
	return b.Driver.(driver.Inspector).Names(ctx, prefix)
}

func (b *bent) Evict(ctx context.Context, name, id string) error {
	if b.evict != nil {
		return b.evict(b.Driver, ctx, name, id)
	}
	return b.Driver.(driver.Evictor).Evict(ctx, name, id)
}

// rigged is a client with a defect, above the core.
type rigged struct {
	Client
	acquire riggedAcquire // of Acquire
	try     riggedAcquire // of TryAcquire
	close   func(next Client, ctx context.Context) error
	holding func(Holding) Holding
}

type riggedAcquire func(next Client, ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error)

func (r *rigged) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error) {
	if r.acquire != nil {
		return r.hold(r.acquire(r.Client, ctx, name, opts...))
	}
	return r.hold(r.Client.Acquire(ctx, name, opts...))
}

func (r *rigged) TryAcquire(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error) {
	if r.try != nil {
		return r.hold(r.try(r.Client, ctx, name, opts...))
	}
	return r.hold(r.Client.TryAcquire(ctx, name, opts...))
}

func (r *rigged) Close(ctx context.Context) error {
	if r.close != nil {
		return r.close(r.Client, ctx)
	}
	return r.Client.Close(ctx)
}

func (r *rigged) hold(h Holding, err error) (Holding, error) {
	if err == nil && r.holding != nil {
		h = r.holding(h)
	}
	return h, err
}

// twisted is a holding with a defect.
type twisted struct {
	Holding
	name     func() string
	token    func() int64
	context  func() context.Context
	deadline func() time.Time
	release  func(ctx context.Context) error
}

func (h *twisted) Name() string {
	if h.name != nil {
		return h.name()
	}
	return h.Holding.Name()
}

func (h *twisted) Token() int64 {
	if h.token != nil {
		return h.token()
	}
	return h.Holding.Token()
}

func (h *twisted) Context() context.Context {
	if h.context != nil {
		return h.context()
	}
	return h.Holding.Context()
}

func (h *twisted) Deadline() time.Time {
	if h.deadline != nil {
		return h.deadline()
	}
	return h.Holding.Deadline()
}

func (h *twisted) Release(ctx context.Context) error {
	if h.release != nil {
		return h.release(ctx)
	}
	return h.Holding.Release(ctx)
}

// defect is one thing that is wrong, and the cases that have to find it.
type defect struct {
	name    string
	cases   string // separated by blanks
	driver  func() func(driver.Driver) *bent
	client  func() func(Client) *rigged
	wrap    func(locker.Locker) locker.Locker
	api     func(*api)
	server  func(*server)
	harness func(*Harness)
	backend func(*Backend)
}

// apply makes the sound backend one with the defect.
func (d *defect) apply() Backend {
	b := remoteBackend()
	wrap := func() wrapper {
		if d.driver == nil {
			return nil
		}
		bend := d.driver()
		return func(next driver.Driver) driver.Driver {
			x := bend(next)
			x.Driver = next
			return x
		}
	}
	b.New = func(t testing.TB) *Harness {
		s := startServer(t)
		if d.server != nil {
			d.server(s)
		}
		h := s.harness(t, wrap())
		h.Address = d.name + "|" + h.Address
		if d.harness != nil {
			d.harness(h)
		}
		return h
	}
	b.DialClient = func(_ context.Context, addr string, opts ...locker.Option) (Client, error) {
		_, addr, _ = strings.Cut(addr, "|")
		return clientOf(dialRemote(addr, secret, wrap(), opts...))
	}
	if d.client != nil {
		rig := d.client()
		b.rig = func(next Client) Client {
			x := rig(next)
			x.Client = next
			return x
		}
	}
	b.wrap, b.api = d.wrap, soundAPI()
	if d.api != nil {
		d.api(b.api)
	}
	if d.backend != nil {
		d.backend(&b)
	}
	return b
}

// recorder is the testing.TB of a case that is expected to fail.
type recorder struct {
	testing.TB // the real one, for what is not recorded

	mu       sync.Mutex
	texts    []string
	fail     bool
	cleanups []func()
}

func (r *recorder) Helper() {}
func (r *recorder) note(fail bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = r.fail || fail
	r.texts = append(r.texts, text)
}

func (r *recorder) Error(args ...any)            { r.note(true, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, args ...any) { r.note(true, fmt.Sprintf(f, args...)) }
func (r *recorder) Log(args ...any)              { r.note(false, fmt.Sprint(args...)) }
func (r *recorder) Logf(f string, args ...any)   { r.note(false, fmt.Sprintf(f, args...)) }
func (r *recorder) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (r *recorder) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
func (r *recorder) Skipf(f string, args ...any)  { r.note(false, fmt.Sprintf(f, args...)) }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) clean() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.texts, "\n")
}
