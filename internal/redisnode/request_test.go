package redisnode

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// hook does something before every request.
type hook struct{ do func() }

func (hook) DialHook(next goredis.DialHook) goredis.DialHook { return next }
func (hook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}
func (h hook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		h.do()
		return next(ctx, cmd)
	}
}

// Requests are made in place only where no hook is, whenever it was added; hooks see all requests.
func TestHooks(t *testing.T) {
	for _, when := range []string{"never", "before", "after", "later"} {
		var seen atomic.Int64
		h := hook{func() { seen.Add(1) }}
		client := connect(t, servers.SharedRedis(t).Addr())
		if when == "before" {
			client.AddHook(h)
		}
		n, other := open(t, client), open(t, client)
		if when == "after" {
			client.AddHook(h)
		}
		for range 20 {
			takeAndRelease(t, n)
			takeAndRelease(t, other)
		}
		if when == "later" {
			client.AddHook(h)
		}
		before := seen.Load()
		for range 20 {
			takeAndRelease(t, n)
		}
		got := seen.Load() - before
		if want := when != "never"; want && got < 40 || !want && got != 0 {
			t.Errorf("%s: it saw %d of 40 requests", when, got)
		}
		n.quick.Store(true)
		if in := n.inPlace(context.Background(), "x") != nil; in != (when == "never") {
			t.Errorf("%s: in place: %v", when, in)
		}
	}
}

func takeAndRelease(t testing.TB, n *Node) {
	t.Helper()
	c := n.exclusive(t.Name())
	ctx := within(t, 20*time.Second)
	if a, err := n.Acquire(ctx, c, Try); err != nil || !a.Granted {
		t.Fatal(a, err)
	}
	must(t, n.Release(ctx, c.Claim))
}

// A hook that sleeps, also if it begins to after a while, does not make calls outlive their context; one
// that panics is an error and leaves nothing hanging.
func TestHooksThatMisbehave(t *testing.T) {
	var sleep, panics atomic.Bool
	client := connect(t, servers.SharedRedis(t).Addr())
	client.AddHook(hook{func() {
		if sleep.Load() {
			time.Sleep(2 * time.Second)
		}
		if panics.Load() {
			panic("a hook")
		}
	}})
	n := open(t, client)
	for range 20 {
		takeAndRelease(t, n)
	}
	c := n.exclusive(t.Name())
	sleep.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	inTime := locktest.Limit(t, time.Second)
	if _, err := n.Acquire(ctx, c, Try); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	inTime("coming back")
	sleep.Store(false)
	if err := n.Abandon(within(t, 20*time.Second), c.Claim); err != nil {
		t.Error(err)
	}
	c = n.exclusive(t.Name())
	_, err := n.Acquire(within(t, 20*time.Second), c, Try)
	must(t, err)
	panics.Store(true)
	if err := n.Release(within(t, 20*time.Second), c.Claim); err == nil {
		t.Error("no error of a panic")
	}
	panics.Store(false)
	if err := n.Release(within(t, 20*time.Second), c.Claim); err != nil {
		t.Error(err)
	}
}

// A function of the user's that is called for each new connection, and hangs, does not make calls outlive their context.
func TestNewConnectionHangs(t *testing.T) {
	var hangs atomic.Bool
	hang := make(chan struct{})
	client := goredis.NewClient(&goredis.Options{
		Addr: servers.SharedRedis(t).Addr(),
		OnConnect: func(context.Context, *goredis.Conn) error {
			if hangs.Load() {
				<-hang
			}
			return nil
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	n := open(t, client)
	t.Cleanup(func() { close(hang) })
	takeAndRelease(t, n)
	hangs.Store(true)
	useAll(t, client)
	n.quick.Store(true)
	ended := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := n.Acquire(ctx, n.exclusive(t.Name()+" hangs"), Try)
		ended <- err
	}()
	if err := locktest.Receive(t, "the end", ended, 20*time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// useAll takes the connections that the client has.
func useAll(t *testing.T, client *goredis.Client) {
	t.Helper()
	for client.PoolStats().IdleConns > 0 {
		conn := client.Conn()
		t.Cleanup(func() { _ = conn.Close() })
		conn.Ping(within(t, 20*time.Second))
	}
}

// What a new connection asks first counts for how long a request in place may take.
func TestNewConnectionIsSlow(t *testing.T) {
	p, sent := locktest.Recording(t, servers.SharedRedis(t).Addr())
	client := goredis.NewClient(&goredis.Options{Addr: p.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	n := open(t, client)
	takeAndRelease(t, n)
	useAll(t, client)
	n.quick.Store(true)
	p.Delay(0, patience*3/4)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	time.AfterFunc(patience/2, cancel)
	name := t.Name() + " slow"
	if _, err := n.Acquire(ctx, n.exclusive(name), Try); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if sent(name) {
		t.Error("the request was sent after two answers that took the time of one request")
	}
}
