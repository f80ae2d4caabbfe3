package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/names"
	"github.com/seed80cd6120/locker/internal/servers"
)

func dialAddresses(ctx context.Context, address string, opts ...locker.Option) (locker.Locker, error) {
	return Connect(ctx, strings.Split(address, ","), opts...)
}

func claims(newHarness func(t testing.TB) *conformance.Harness) conformance.Backend {
	return conformance.Backend{
		New:        newHarness,
		Dial:       dialAddresses,
		Fair:       true,
		Fenced:     true,
		Durable:    true,
		Shared:     true,
		Permits:    true,
		Downgrade:  true,
		Inspect:    true,
		Evict:      true,
		AtLeast:    true,
		TTL:        1800 * time.Millisecond, // a session of 1.2 s; a server's news may be old by three quarters of half of it
		RequireAll: true,
	}
}

// needServers skips what a process that the suite started does not.
func needServers(t *testing.T) {
	if !conformance.InChild() {
		servers.Need(t)
	}
}

func TestConformance(t *testing.T) {
	needServers(t)
	t.Parallel()
	var z *servers.ZooKeeper
	var start sync.Once
	conformance.Run(t, claims(func(tb testing.TB) *conformance.Harness {
		start.Do(func() { z = servers.NewZooKeeper(t, servers.ZooKeeperOptions{}) })
		if z == nil {
			tb.SkipNow()
		}
		return harness(tb, []string{z.Addr()}, z.Requests,
			func(context.Context) error { return z.Kill() },
			z.Restart)
	}))
}

// TestConformanceOfEnsemble goes through the suite on three servers. Where the suite stops the servers the leader is
// killed, by turns with one other, so that no quorum is left, and with all others. Nobody is killed while a server is
// joining: before version 3.8.4 a follower that is killed then forgets what it has confirmed (ZOOKEEPER-4785), and with
// it a lock may be gone.
func TestConformanceOfEnsemble(t *testing.T) {
	needServers(t)
	t.Parallel()
	var e *servers.ZooKeeperEnsemble
	var start sync.Once
	var away []*servers.ZooKeeper
	stops := 0
	b := claims(func(tb testing.TB) *conformance.Harness {
		start.Do(func() {
			e = servers.NewZooKeeperEnsemble(t, 3, servers.ZooKeeperOptions{})
		})
		if e == nil {
			tb.SkipNow()
		}
		return harness(tb, e.Addrs(),
			func(ctx context.Context) (int64, error) {
				if err := e.WaitReady(ctx); err != nil { // who was away may not be back
					return 0, err
				}
				return servers.SumRequests(ctx, e.Members)
			},
			func(ctx context.Context) error {
				if err := e.WaitReady(ctx); err != nil {
					return err
				}
				leader, err := e.Leader(ctx)
				if err != nil {
					return err
				}
				at := slices.Index(e.Members, leader)
				away = slices.Concat(e.Members[at:], e.Members[:at])[:2+stops%2]
				stops++
				return servers.Each(away, (*servers.ZooKeeper).Kill)
			},
			func(ctx context.Context) error {
				if err := servers.Each(away, func(z *servers.ZooKeeper) error { return z.RestartNoWait(ctx) }); err != nil {
					return err
				}
				_, err := e.Leader(ctx)
				return err
			})
	})
	b.Variant = true
	conformance.Run(t, b)
}

// killLeader kills the leader, waits for another, and lets the old one come back.
func killLeader(ctx context.Context, e *servers.ZooKeeperEnsemble) error {
	leader, err := e.Leader(ctx)
	if err != nil {
		return err
	}
	if err := leader.Kill(); err != nil {
		return err
	}
	if _, err := e.Leader(ctx); err != nil {
		return err
	}
	return leader.RestartNoWait(ctx)
}

func harness(
	t testing.TB, addrs []string,
	requests func(context.Context) (int64, error), stop, start func(context.Context) error,
) *conformance.Harness {
	return &conformance.Harness{
		Address: strings.Join(addrs, ","),
		Open: func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
			return Connect(ctx, addrs, opts...)
		},
		OpenLink: func(ctx context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
			s, fronts := locktest.Fronts(t, addrs)
			l, err := Connect(ctx, fronts, opts...)
			return l, conformance.Link{Freeze: s.Freeze, Mute: s.FreezeDown, Cut: s.CutOff, Heal: s.Heal}, err
		},
		Destroy:   func(ctx context.Context, name string) error { return destroy(ctx, addrs, name) },
		Leftovers: func(ctx context.Context, text string) ([]string, error) { return leftovers(ctx, addrs, text) },
		Requests:  requests,
		Stop:      stop,
		Start:     start,
		Misconfigured: map[string]func(context.Context, ...locker.Option) (locker.Locker, error){
			"unknown scheme": func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
				return Connect(ctx, addrs, append(opts, WithAuth("no-such-scheme", nil))...)
			},
			"no permission": func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
				if err := reserve(ctx, addrs); err != nil {
					return nil, err
				}
				return Connect(ctx, addrs, append(opts, WithChroot("/reserved"))...)
			},
			"wrong password": func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
				if err := reserve(ctx, addrs); err != nil {
					return nil, err
				}
				return Connect(ctx, addrs, append(opts, WithChroot("/reserved"), WithDigest("ann", "wrong"))...)
			},
		},
	}
}

// asOperator runs do with a client of the library, which blocks for good where there
// is no server, and gives up by ctx.
func asOperator(ctx context.Context, addrs []string, do func(c *zk.Conn) error) error {
	c, events, err := zk.Connect(addrs, 10*time.Second, zk.WithLogger(quiet), zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- do(c) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.Close()
	for range events {
	}
	return err
}

func destroy(ctx context.Context, addrs []string, name string) error {
	return asOperator(ctx, addrs, func(c *zk.Conn) error {
		queue := queuePath(folder, name)
		if _, err := c.Sync(queue); err != nil {
			return err
		}
		children, _, err := c.Children(queue)
		if err != nil {
			return err
		}
		if len(children) == 0 {
			return errors.New("nobody holds it")
		}
		if err := c.Delete(queue+"/"+parseQueue(children)[0].node, -1); err != zk.ErrNoNode {
			return err
		}
		return nil // it has gone by itself
	})
}

func leftovers(ctx context.Context, addrs []string, text string) ([]string, error) {
	var left []string
	err := asOperator(ctx, addrs, func(c *zk.Conn) error {
		if _, err := c.Sync(folder); err != nil {
			return err
		}
		queues, _, err := c.Children(folder)
		if err != nil && err != zk.ErrNoNode {
			return err
		}
		for _, q := range queues {
			if !strings.Contains(q, names.Escape(text)) {
				continue
			}
			children, _, err := c.Children(folder + "/" + q)
			if err != nil && err != zk.ErrNoNode {
				return err
			}
			for _, child := range children {
				left = append(left, folder+"/"+q+"/"+child)
			}
			// An empty queue is a container, which the server removes.
		}
		return nil
	})
	if err != nil { // it may still be looking
		return nil, err
	}
	return left, nil
}

// reserve makes a node that only a certain user may use.
func reserve(ctx context.Context, addrs []string) error {
	return asOperator(ctx, addrs, func(c *zk.Conn) error {
		_, err := c.Create("/reserved", nil, 0, zk.DigestACL(zk.PermAll, "ann", "right"))
		if err != nil && err != zk.ErrNodeExists {
			return fmt.Errorf("reserve: %w", err)
		}
		return nil
	})
}
