package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/driver"
)

// Access is what a client needs in order to reach the servers. It is passed to other
// processes as JSON.
type Access struct {
	// Kind says which opener makes the client: "redis", "redlock", "zookeeper", ...
	Kind string
	// Addrs are the addresses of the servers, or of the Sentinels.
	Addrs []string
	// Via maps addresses of servers to those of the proxies in front of them, for
	// clients that learn addresses from servers.
	Via map[string]string `json:",omitempty"`
	// Master is the name by which Sentinels know the master.
	Master string `json:",omitempty"`
	// TTL of the locks.
	TTL time.Duration
	// HandOver is for how long goroutines of a client may pass a name on among themselves.
	HandOver time.Duration `json:",omitempty"`

	// User and Password, if there are any, are what a client shows to the servers.
	User, Password string `json:",omitempty"`

	// What follows is for clients in this process only.

	clock  driver.Clock                  // takes the place of the system's
	tls    func(addr string) *tls.Config // how the server at addr is spoken to
	dials  int                           // how often a client dials before it says why it could not; 0: go-redis' default
	life   context.Context               // of the client that is made
	logger *slog.Logger                  // where Lockers report to
}

// Options are those of every Locker that an Opener makes.
func (a Access) Options() []locker.Option {
	opts := []locker.Option{locker.WithTTL(a.TTL)}
	if a.HandOver > 0 {
		opts = append(opts, locker.WithHandOver(a.HandOver))
	}
	if a.clock != nil {
		opts = append(opts, locker.WithClock(a.clock))
	}
	if a.logger != nil {
		opts = append(opts, locker.WithLogger(a.logger))
	}
	return opts
}

// Through returns the address to dial for the server at addr.
func (a Access) Through(addr string) string {
	if via, ok := a.Via[addr]; ok {
		return via
	}
	return addr
}

// Opener makes a client with connections of its own. Closing it ends them.
type Opener func(ctx context.Context, a Access) (conformance.Client, error)

var openers sync.Map // of Opener, by kind

// Register makes a kind of client known, in every process that is to use it: as a rule
// from an init function.
func Register(kind string, open Opener) { openers.Store(kind, open) }

// Open makes a client.
func Open(ctx context.Context, a Access) (conformance.Client, error) {
	open, ok := openers.Load(a.Kind)
	if !ok {
		return nil, fmt.Errorf("faults: nobody registered clients of kind %q", a.Kind)
	}
	return open.(Opener)(ctx, a)
}

// client is a Locker of ours with the connections that were opened for it.
type client struct {
	locker.Locker
	end func() error // harmless when called again
}

// ClientOf makes a client of what a constructor of ours returned. end closes the
// connections.
func ClientOf(l locker.Locker, err error, end func() error) (conformance.Client, error) {
	if err != nil {
		if end != nil {
			_ = end()
		}
		return nil, err
	}
	if end == nil {
		end = func() error { return nil }
	}
	return client{l, sync.OnceValue(end)}, nil
}

func (c client) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (conformance.Holding, error) {
	return holding(c.Locker.Acquire(ctx, name, opts...))
}

func (c client) TryAcquire(ctx context.Context, name string, opts ...locker.AcquireOption) (conformance.Holding, error) {
	return holding(c.Locker.TryAcquire(ctx, name, opts...))
}

// holding leaves no nil lock in the interface.
func holding(l *locker.Lock, err error) (conformance.Holding, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (c client) Close(ctx context.Context) error {
	return errors.Join(c.Locker.Close(ctx), c.end())
}
