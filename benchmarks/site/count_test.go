package site

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

var must = locktest.Must

// What clients send is counted exactly, on every kind of server, and what scripts do
// inside is not.
func TestRequests(t *testing.T) {
	servers.Need(t)
	within := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		return ctx
	}
	t.Run("redis", func(t *testing.T) {
		s := start(t, contender.Setup{Service: contender.Redis, Nodes: 2})
		ctx := within(t)
		var many []string
		for range 1000 {
			many = append(many, "0123456789") // a line longer than the buffer that reads it
		}
		a, b := dial.Redis(s.Addrs[0]), dial.Redis(s.Addrs[1])
		defer a.Close()
		defer b.Close()
		a.Ping(ctx)
		b.Ping(ctx)
		n, err := s.Requests(ctx, func() error {
			for range 10 {
				if err := a.Set(ctx, "k", "v", 0).Err(); err != nil {
					return err
				}
			}
			if err := a.Eval(ctx, "for i = 1, 5 do redis.call('INCR', 'n') end return 0", []string{"n"}).Err(); err != nil {
				return err
			}
			return b.Del(ctx, many...).Err()
		})
		if err != nil || n != 12 {
			t.Errorf("counted %d, %v; 12 were sent", n, err)
		}
		if list, err := a.ClientList(ctx).Result(); err != nil || strings.Contains(list, "cmd=monitor") {
			t.Errorf("a MONITOR is left: %v\n%s", err, list)
		}
	})
	t.Run("etcd", func(t *testing.T) {
		s := start(t, contender.Setup{Service: contender.Etcd, Nodes: 1})
		ctx := within(t)
		conn, err := dial.Etcd(ctx, s.Addrs)
		must(t, err)
		defer conn.Close()
		before, err := s.Stored(ctx)
		must(t, err)
		n, err := s.Requests(ctx, func() error {
			for _, k := range []string{"a", "b", "c"} {
				if _, err := conn.Put(ctx, k, ""); err != nil {
					return err
				}
			}
			_, err := conn.Delete(ctx, "a")
			return err
		})
		if err != nil || n != 4 {
			t.Errorf("counted %d, %v; 4 were sent", n, err)
		}
		if after, err := s.Stored(ctx); err != nil || after-before != 2 {
			t.Errorf("%d more are stored, %v; 2 are", after-before, err)
		}
	})
	t.Run("zookeeper", func(t *testing.T) {
		s := start(t, contender.Setup{Service: contender.ZooKeeper, Nodes: 3})
		ctx := within(t)
		conn, err := dial.ZooKeeper(ctx, s.Addrs, 9*time.Second)
		must(t, err)
		defer conn.Close()
		if beat, err := s.Heartbeat(ctx); err != nil || beat != 3*time.Second {
			t.Errorf("a session of 9 s is pinged every %v, %v", beat, err)
		}
		n := locktest.Requests(3, func() int64 { // the session is pinged now and then
			n, err := s.Requests(ctx, func() error {
				for range 3 {
					if _, _, err := conn.Exists("/nothing"); err != nil {
						return err
					}
				}
				return nil
			})
			must(t, err)
			return n
		})
		if n != 3 {
			t.Errorf("counted %d; 3 were sent", n)
		}
	})
}

func TestBlackHole(t *testing.T) {
	servers.Need(t)
	s := start(t, contender.Redis1.Of(3).But(contender.BlackHole))
	if s.Addrs[0] == s.Redis[0].Addr() || s.Addrs[1] != s.Redis[1].Addr() {
		t.Errorf("%v before %v", s.Addrs, s.Redis)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	hole := dial.Redis(s.Addrs[0])
	defer hole.Close()
	answered := make(chan error, 1)
	go func() { answered <- hole.Ping(t.Context()).Err() }()
	select {
	case err := <-answered:
		t.Errorf("the black hole answered: %v", err)
	case <-ctx.Done():
	}
}

func start(t *testing.T, setup contender.Setup) *Site {
	t.Helper()
	s, err := Start(t.Context(), setup, nil)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.Version == "" {
		t.Error("the server did not say its version")
	}
	return s
}

// A round trip takes longer by what it is delayed, and the servers outlive the network.
func TestDelayed(t *testing.T) {
	servers.Need(t)
	s := start(t, contender.Setup{Service: contender.Redis, Nodes: 1})
	const delay = 20 * time.Millisecond
	d, err := s.Delayed(delay)
	must(t, err)
	client := dial.Redis(d.Addrs[0])
	defer client.Close()
	for range 2 { // the first connects
		start := time.Now()
		must(t, client.Ping(t.Context()).Err())
		if took := time.Since(start); took < delay {
			t.Errorf("a request took %v, want at least %v", took, delay)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Redis[0].Do(t.Context(), "PING"); err != nil {
		t.Errorf("the server went with the network: %v", err)
	}
}
