package redis

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A subscription on which nothing comes any more, although the server has it and nobody
// has closed the connection, is replaced: a waiter that looks after a long silence has a
// word said on it.
func TestDeafSubscription(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{})
	admin := connect(t, r.Addr())
	var ears ears
	o := options(r.Addr())
	o.Dialer = ears.dial
	const ttl = quiet + time.Second // the waiter looks when the holder's time is over
	a, b := open(t, connect(t, r.Addr()), locker.WithTTL(ttl)), open(t, closing(t, goredis.NewClient(o)))
	name := freshName(t)
	lock := acquire(t, a, name)
	w := wants(within(t, 60*time.Second), b, name)
	queued(t, admin, name, 1)
	ears.closed.Store(ears.subscribed.Load())

	eventually.Is(t, "another subscription", func() bool { return ears.subscribed.Load() > ears.closed.Load() })
	if lock.Context().Err() != nil {
		t.Fatal(context.Cause(lock.Context()))
	}
	release(t, lock)
	release(t, w.holds(t, slack))
}

// ears makes connections that can be made deaf: those of which the first subscriptions
// were.
type ears struct{ subscribed, closed atomic.Int32 }

type ear struct {
	net.Conn
	*ears
	number atomic.Int32 // of its subscription
}

func (e *ears) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &ear{Conn: conn, ears: e}, nil
}

func (e *ear) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\nsubscribe\r\n")) {
		e.number.Store(e.subscribed.Add(1))
	}
	return e.Conn.Write(p)
}

func (e *ear) Read(p []byte) (int, error) {
	for {
		n, err := e.Conn.Read(p)
		if number := e.number.Load(); err != nil || number == 0 || number > e.closed.Load() {
			return n, err
		}
	}
}
