package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/names"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/internal/servers/zkdial"
	"github.com/seed80cd6120/locker/zookeeper"
)

func init() {
	Register("zookeeper", func(ctx context.Context, a Access) (conformance.Client, error) {
		var addrs []string
		for _, addr := range a.Addrs {
			addrs = append(addrs, a.Through(addr))
		}
		opts := a.Options()
		if a.User != "" {
			opts = append(opts, zookeeper.WithDigest(a.User, a.Password))
		}
		if a.tls != nil {
			opts = append(opts, zookeeper.WithTLS(a.tls(a.Addrs[0])))
		}
		l, err := zookeeper.Connect(ctx, addrs, opts...)
		return ClientOf(l, err, nil)
	})
}

const zkTick = 500 * time.Millisecond

// zkSetups start ZooKeeper with one server and with three.
var zkSetups = map[string]func(t testing.TB, o servers.ZooKeeperOptions) *Servers{
	"zookeeper-1": func(t testing.TB, o servers.ZooKeeperOptions) *Servers {
		return zkServers([]*servers.ZooKeeper{servers.NewZooKeeper(t, o)})
	},
	"zookeeper-3": func(t testing.TB, o servers.ZooKeeperOptions) *Servers {
		e := servers.NewZooKeeperEnsemble(t, 3, o)
		s := zkServers(e.Members)
		s.Leader = func(ctx context.Context) (int, error) {
			leader, err := e.Leader(ctx)
			return slices.Index(e.Members, leader), err
		}
		// Nobody can be asked to step down: the leader is restarted.
		s.MoveLeader = func(ctx context.Context) error {
			leader, err := e.Leader(ctx)
			if err != nil {
				return err
			}
			if err := leader.Kill(); err != nil {
				return err
			}
			return leader.Restart(ctx)
		}
		return s
	},
}

func onZooKeeper(name string) Backend {
	return setup(name, zooKeeperFamily, func(t testing.TB) *Servers { return zkSetups[name](t, zkOptions) })
}

// ZooKeeper1 and ZooKeeper3 are ZooKeeper with one server and with three.
var (
	ZooKeeper1 = onZooKeeper("zookeeper-1")
	ZooKeeper3 = onZooKeeper("zookeeper-3")
)

var zkOptions = servers.ZooKeeperOptions{Tick: zkTick, Properties: map[string]string{
	"znode.container.checkIntervalMs": "1000",
}}

func zkServers(all []*servers.ZooKeeper) *Servers {
	return OnZooKeeper("zookeeper", func(name string) string { return "/locker/" + names.Escape(name) }, all)
}

// OnZooKeeper returns what a kind of lock stands on whose nodes for a name are below what
// queue says.
func OnZooKeeper(kind string, queue func(name string) string, all []*servers.ZooKeeper) *Servers {
	s := &Servers{Keeps: true}
	for _, z := range all {
		s.All = append(s.All, z.Server)
		s.Addrs = append(s.Addrs, z.Addr())
	}
	s.Access = Access{Kind: kind, Addrs: s.Addrs, TTL: ttl}
	s.Destroy = func(ctx context.Context, name string) error {
		return s.onZooKeeper(ctx, queue(name), deleteFirst)
	}
	s.EndSession = func(ctx context.Context, name string, waiters bool) error {
		return s.onZooKeeper(ctx, queue(name), func(c *zk.Conn, queue string, nodes []string) error {
			for i, node := range nodes {
				if (i > 0) != waiters {
					continue
				}
				if err := closeSessionOf(ctx, c, s.Addrs[0], queue+"/"+node); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.Plant = func(ctx context.Context, name, entry string) error {
		return s.onZooKeeper(ctx, queue(name), func(c *zk.Conn, queue string, _ []string) error {
			_, err := c.Create(queue+"/"+entry, nil, 0, zk.WorldACL(zk.PermAll))
			return err
		})
	}
	s.Waiting = func(ctx context.Context, name string) (n int, err error) {
		err = s.onZooKeeper(ctx, queue(name), func(_ *zk.Conn, _ string, nodes []string) error {
			n = max(0, len(nodes)-1)
			return nil
		})
		return n, err
	}
	list := func(ctx context.Context, name string, container bool) (left []string, err error) {
		err = s.onZooKeeper(ctx, queue(name), func(c *zk.Conn, queue string, nodes []string) error {
			for _, n := range nodes {
				left = append(left, queue+"/"+n)
			}
			if !container {
				return nil
			}
			if there, _, err := c.Exists(queue); err == nil && there {
				left = append(left, queue)
			}
			return nil
		})
		return left, err
	}
	s.Litter = func(ctx context.Context, name string) ([]string, error) { return list(ctx, name, true) }
	s.Claims = func(ctx context.Context, name string) ([]string, error) { return list(ctx, name, false) } // the servers remove a container
	return s
}

// deleteFirst deletes the holder's node. It returns nil, too, if there is none, or if it
// has gone meanwhile: its session may expire on a machine that is late.
func deleteFirst(c *zk.Conn, queue string, nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	if err := c.Delete(queue+"/"+nodes[0], -1); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// closeSessionOf ends the session that an ephemeral node belongs to. Whose session it is
// may take it back in between, so it is tried again until the node is gone.
func closeSessionOf(ctx context.Context, c *zk.Conn, addr, node string) (err error) {
	for range 20 {
		_, stat, gone := c.Get(node)
		if errors.Is(gone, zk.ErrNoNode) {
			return nil
		}
		if gone != nil {
			return gone
		}
		if err = closeSession(ctx, addr, stat.EphemeralOwner); err == nil {
			err = fmt.Errorf("session %x was taken back", stat.EphemeralOwner)
		}
	}
	return err
}

// onZooKeeper does something with a queue, as the leader has it: a follower may be behind.
// The holder's node comes first.
func (s *Servers) onZooKeeper(ctx context.Context, queue string, do func(c *zk.Conn, queue string, nodes []string) error) error {
	c, err := ZooKeeperConn(ctx, s.Addrs)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Sync(queue); err != nil {
		return err
	}
	nodes, _, err := c.Children(queue)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	slices.SortFunc(nodes, func(a, b string) int { return cmp.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]) })
	return do(c, queue, nodes)
}

// ZooKeeperConn connects and waits for the session. It tries again by itself until ctx
// ends.
func ZooKeeperConn(ctx context.Context, addrs []string) (*zk.Conn, error) {
	return zkdial.Dial(ctx, addrs, 5*time.Second)
}
