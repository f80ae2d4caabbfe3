package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/rpc"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

// remote is the driver.
type remote struct {
	addr, secret string
	clock        driver.Clock

	mu     sync.Mutex
	conn   *rpc.Client
	closed bool
}

// wrapper puts a defect between the core and the driver.
type wrapper func(driver.Driver) driver.Driver

func dialRemote(addr, secret string, wrap wrapper, opts ...locker.Option) (locker.Locker, error) {
	cfg, err := locker.NewConfig[struct{}]("remote", nil, opts...)
	if err != nil {
		return nil, err
	}
	var d driver.Driver = &remote{addr: addr, secret: secret, clock: cfg.Clock}
	if wrap != nil {
		d = wrap(d)
	}
	return locker.New(d, cfg)
}

func (r *remote) Traits() driver.Traits {
	return driver.Traits{
		Backend: "remote", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true, Check: 300 * time.Millisecond,
	}
}

func (r *remote) connect() (*rpc.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, rpc.ErrShutdown
	}
	if r.conn == nil {
		conn, err := net.DialTimeout("tcp", r.addr, time.Second)
		if err != nil {
			return nil, err
		}
		r.conn = rpc.NewClient(conn)
	}
	return r.conn, nil
}

func (r *remote) call(ctx context.Context, method string, in *Call) (*Answer, error) {
	in.Secret = r.secret
	conn, err := r.connect()
	if err != nil {
		return nil, err
	}
	out := new(Answer)
	call := conn.Go("Store."+method, in, out, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var told rpc.ServerError
	switch {
	case call.Error == nil:
		return out, nil
	case !errors.As(call.Error, &told):
		r.mu.Lock()
		if r.conn == conn {
			r.conn = nil
		}
		r.mu.Unlock()
		conn.Close()
	case told.Error() == driver.ErrTaken.Error():
		return nil, driver.ErrTaken
	case told.Error() == driver.ErrGone.Error():
		return nil, driver.ErrGone
	}
	return nil, fmt.Errorf("%s: %w", strings.ToLower(method), call.Error)
}

func (r *remote) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	for {
		g, err := r.once(ctx, c)
		var told rpc.ServerError
		if err == nil || !c.Wait || ctx.Err() != nil || r.isClosed() || errors.Is(err, driver.ErrGone) || errors.As(err, &told) {
			return g, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return driver.Grant{}, ctx.Err()
		}
	}
}

// once asks once. What it asks for may be granted all the same when it fails.
func (r *remote) once(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	g, err := r.ask(ctx, c)
	if err != nil || !c.Wait {
		return g, err
	}
	// The lease began at an unknown moment.
	sent := r.clock.Now()
	renewed, err := r.call(ctx, "Renew", &Call{IDs: []string{c.ID}})
	if err != nil {
		return driver.Grant{}, fmt.Errorf("confirm: %w", err)
	}
	if g.Until = sent; renewed.Held[0] { // or else too late: the core asks again
		g.Until = sent.Add(renewed.Left[0])
	}
	return g, nil
}

// ask is once without a confirmation of what was waited for.
func (r *remote) ask(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	in := &Call{
		Name: c.Name, ID: c.ID, Owner: c.Owner, TTL: c.TTL, Lease: c.Lease, Wait: c.Wait,
		Weight: c.Weight, Limit: c.Limit, Spare: c.Spare,
	}
	sent := r.clock.Now()
	out, err := r.call(ctx, "Acquire", in)
	if err != nil {
		return driver.Grant{}, err
	}
	return driver.Grant{Token: out.Token, Spare: out.Spare, Until: sent.Add(c.TTL)}, nil
}

func (r *remote) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

func (r *remote) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	in := &Call{}
	for _, c := range claims {
		in.IDs = append(in.IDs, c.ID)
	}
	sent := r.clock.Now()
	out, err := r.call(ctx, "Renew", in)
	for i, c := range claims {
		switch {
		case err != nil:
			report(c, 0, err)
		case out.Held[i]:
			report(c, sent.Add(out.Left[i]), nil)
			if out.Wanted[i] {
				c.Wanted()
			}
		default:
			report(c, 0, driver.ErrGone)
		}
	}
}

func (r *remote) Release(ctx context.Context, c *driver.Claim) error {
	_, err := r.call(ctx, "Release", &Call{ID: c.ID, Name: c.Name})
	return err
}

func (r *remote) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	_, err := r.call(ctx, "Linger", &Call{ID: c.ID, Name: c.Name, More: d})
	return err
}

func (r *remote) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	_, err := r.call(ctx, "Lighten", &Call{ID: c.ID, Weight: weight})
	return err
}

func (r *remote) Look(ctx context.Context, name string) ([]driver.Position, error) {
	out, err := r.call(ctx, "Look", &Call{Name: name})
	if err != nil {
		return nil, err
	}
	return out.Positions, nil
}

func (r *remote) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		out, err := r.call(ctx, "Names", &Call{Name: prefix})
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range out.Names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (r *remote) Evict(ctx context.Context, name, id string) error {
	_, err := r.call(ctx, "Evict", &Call{Name: name, ID: id})
	return err
}

func (r *remote) Abandon(ctx context.Context, c *driver.Claim) error {
	_, err := r.call(ctx, "Abandon", &Call{ID: c.ID, Name: c.Name})
	return err
}

func (r *remote) Close(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.conn != nil {
		if err := r.conn.Close(); err != nil && !errors.Is(err, rpc.ErrShutdown) && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}
