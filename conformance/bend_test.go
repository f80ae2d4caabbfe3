package conformance

import (
	"context"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// whole is a driver that can do everything.
type whole interface {
	driver.Driver
	driver.Lingerer
	driver.Weigher
	driver.Inspector
	driver.Evictor
}

// bent is a driver with a defect: methods that are nil are those of the sound one.
type bent struct {
	whole
	traits  func(*driver.Traits)
	acquire acquireBent
	renew   renewBent
	release func(next whole, ctx context.Context, c *driver.Claim) error
	abandon func(next whole, ctx context.Context, c *driver.Claim) error
	linger  func(next whole, ctx context.Context, c *driver.Claim, d time.Duration) error
	lighten func(next whole, ctx context.Context, c *driver.Claim, weight int32) error
	look    func(next whole, ctx context.Context, name string) ([]driver.Position, error)
	names   func(next whole, ctx context.Context, prefix string) iter.Seq2[string, error]
	evict   func(next whole, ctx context.Context, name, id string) error
}

type (
	acquireBent = func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error)
	renewBent   = func(next whole, ctx context.Context, claims []*driver.Claim, report report)
)

type report = func(*driver.Claim, driver.Instant, error)

// or returns the function with the defect, or the sound one if that is nil.
func or[F any](defect, sound F) F {
	if reflect.ValueOf(defect).IsNil() {
		return sound
	}
	return defect
}

func (b *bent) Traits() driver.Traits {
	t := b.whole.Traits()
	or(b.traits, func(*driver.Traits) {})(&t)
	return t
}

func (b *bent) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	return or(b.acquire, whole.Acquire)(b.whole, ctx, c)
}

func (b *bent) Renew(ctx context.Context, claims []*driver.Claim, report report) {
	or(b.renew, whole.Renew)(b.whole, ctx, claims, report)
}

func (b *bent) Release(ctx context.Context, c *driver.Claim) error {
	return or(b.release, whole.Release)(b.whole, ctx, c)
}

func (b *bent) Abandon(ctx context.Context, c *driver.Claim) error {
	return or(b.abandon, whole.Abandon)(b.whole, ctx, c)
}

func (b *bent) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	return or(b.linger, whole.Linger)(b.whole, ctx, c, d)
}

func (b *bent) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	return or(b.lighten, whole.Lighten)(b.whole, ctx, c, weight)
}

func (b *bent) Look(ctx context.Context, name string) ([]driver.Position, error) {
	return or(b.look, whole.Look)(b.whole, ctx, name)
}

func (b *bent) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return or(b.names, whole.Names)(b.whole, ctx, prefix)
}

func (b *bent) Evict(ctx context.Context, name, id string) error {
	return or(b.evict, whole.Evict)(b.whole, ctx, name, id)
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
	return r.hold(or(r.acquire, Client.Acquire)(r.Client, ctx, name, opts...))
}

func (r *rigged) TryAcquire(ctx context.Context, name string, opts ...locker.AcquireOption) (Holding, error) {
	return r.hold(or(r.try, Client.TryAcquire)(r.Client, ctx, name, opts...))
}

func (r *rigged) Close(ctx context.Context) error { return or(r.close, Client.Close)(r.Client, ctx) }

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

func (h *twisted) Name() string                      { return or(h.name, h.Holding.Name)() }
func (h *twisted) Token() int64                      { return or(h.token, h.Holding.Token)() }
func (h *twisted) Context() context.Context          { return or(h.context, h.Holding.Context)() }
func (h *twisted) Deadline() time.Time               { return or(h.deadline, h.Holding.Deadline)() }
func (h *twisted) Release(ctx context.Context) error { return or(h.release, h.Holding.Release)(ctx) }

// defect is one thing that is wrong, and the cases that have to find it.
type defect struct {
	name    string
	cases   string // separated by blanks
	driver  func() func(whole) *bent
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
			sound := next.(whole)
			x := bend(sound)
			x.whole = sound
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
