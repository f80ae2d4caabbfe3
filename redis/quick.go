package redis

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	goredis "github.com/redis/go-redis/v9"
)

// direct is a command that goes to a client with short timeouts, but through the
// hooks of the caller's client all the same: it is sent there and turned off to its
// way by a hook of ours behind them. (Client.WithTimeout does not keep the hooks.)
type direct struct {
	goredis.Cmder
	to func(ctx context.Context, cmd goredis.Cmder) error
}

// switchman is that hook. To all other commands it does nothing. It also remembers why
// the client could not connect.
type switchman struct{ failed atomic.Pointer[failedDial] }

// failedDial is an attempt to connect that failed.
type failedDial struct {
	at  time.Time
	err error
}

// DialHook keeps the errors of attempts to connect: the client tries several times, also for
// longer than the caller has, and says why not only then.
func (s *switchman) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			s.failed.Store(&failedDial{time.Now(), err})
			return nil, err
		}
		if ln, ok := ctx.Value(lineKey{}).(*line); ok {
			conn = ln.tapOn(conn)
		}
		return conn, nil
	}
}

// since is why it was not possible to connect at some time after t, nil if it was or
// nobody tried.
func (s *switchman) since(t time.Time) error {
	if s == nil {
		return nil
	}
	if f := s.failed.Load(); f != nil && f.at.After(t) {
		return f.err
	}
	return nil
}

func (*switchman) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (*switchman) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if d, ok := cmd.(direct); ok {
			return d.to(ctx, d.Cmder)
		}
		return next(ctx, cmd)
	}
}

// switched are the clients that have the hook, and theirs.
var switched sync.Map

func addSwitch[C any](client *C, add func(goredis.Hook)) *switchman {
	key := weak.Make(client)
	hook, has := switched.LoadOrStore(key, &switchman{})
	if !has {
		add(hook.(*switchman))
		runtime.AddCleanup(client, func(key weak.Pointer[C]) { switched.Delete(key) }, key)
	}
	return hook.(*switchman)
}

// quickClient sends commands by a client that waits no longer for an answer than
// bound.
type quickClient struct {
	client  processor // the caller's
	bounded func(ctx context.Context, cmd goredis.Cmder) error
	kept    *keptConn
}

func (q *quickClient) Process(ctx context.Context, cmd goredis.Cmder) error {
	return q.client.Process(ctx, direct{cmd, q.bounded})
}

func newQuickClient(node *goredis.Client, of goredis.UniversalClient) *quickClient {
	addSwitch(node, node.AddHook)
	kept := newKeptConn(node.WithTimeout(min(bound, sooner(node.Options()))))
	q := &quickClient{client: node, bounded: kept.process, kept: kept}
	if c, ok := of.(*goredis.ClusterClient); ok {
		addSwitch(c, c.AddHook)
		return &quickClient{client: c, bounded: q.Process, kept: kept}
	}
	return q
}

// sooner is how long the client itself would wait.
func sooner(o *goredis.Options) time.Duration {
	if o.ReadTimeout > 0 {
		return o.ReadTimeout
	}
	return bound
}

// quick returns a client that is bounded, if there is one and the server was quick
// last time.
func (b *backend) quick(ctx context.Context, key string) processor {
	if !b.brisk.Load() {
		return nil
	}
	var node *goredis.Client
	switch c := b.client.(type) {
	case *goredis.Client:
		node = c
	case *goredis.ClusterClient:
		node, _ = c.MasterForKey(ctx, key)
	}
	if node == nil {
		return nil
	}
	if q, ok := b.nodes.Load(node); ok {
		return q.(*quickClient)
	}
	q, _ := b.nodes.LoadOrStore(node, newQuickClient(node, b.client))
	return q.(*quickClient)
}
