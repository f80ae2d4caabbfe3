package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/site"
	"github.com/seed80cd6120/locker/internal/servers"
)

const (
	masterDies  = "Redis master dies before its replica saw the lock"
	nodeEmptied = "a node of five restarts empty"
	leaderDies  = "leader killed"
)

func failover() Experiment {
	return Experiment{
		Name:     "failover",
		Title:    "Failover",
		Question: "When a server dies, do two hold the lock, does anything tell them apart, and how long can nobody have it?",
		Method: "Redis: the replica is cut off, A takes the lock, the master is killed, the replica is promoted, B takes the lock from it. " +
			"RedLock: A takes the lock while two of five nodes are down; these come back, one of the other three restarts without its data, B takes the lock. " +
			"Two hold if B got the lock while A had been told nothing and its time was not over. " +
			"ZooKeeper and etcd, three servers: clients take and release names of their own while the leader is killed.",
		Metrics: []Metric{
			{Name: "two hold", Unit: "%", Meaning: "of the tries, in how many both A and B took themselves for the holder"},
			{Name: "told apart", Unit: "%", Better: 1, Meaning: "of those, in how many the token of B was greater than that of A, so that a store that checks it stays correct"},
			{Name: "nobody", Unit: "ms", Better: -1, Meaning: "from the death of the leader to the first acquisition by any client that was asked for after it"},
			{Name: "slowest client", Unit: "ms", Better: -1, Meaning: "the same for the client that was last"},
		},
		Cases: func(d Depth) []Case {
			return []Case{
				{Name: masterDies, How: masterDies, TTL: 10 * time.Second},
				{Name: nodeEmptied, How: nodeEmptied, TTL: 10 * time.Second},
				{Name: leaderDies, How: leaderDies, TTL: 10 * time.Second, Times: pick(d, 1, 1, 2)},
			}
		},
		Repeat: func(d Depth) int { return pick(d, 1, 2, 5) },
		Fits: func(d Depth, c contender.Contender, k Case) bool {
			if c.Aside = c.Aside && d != Full; !usual(d, c, k) {
				return false
			}
			switch k.How {
			case masterDies:
				return c.Setup == contender.Redis1
			case nodeEmptied:
				return c.Setup == contender.Redis1.Of(5)
			}
			return c.Setup.Service != contender.Redis && c.Setup.Nodes == 3 && (d == Full || c.Role == contender.Ours)
		},
		Own: true,
		// Who holds does not depend on what else the machine does; for how long nobody
		// can does a little.
		Together: func(d Depth, k Case) bool { return d != Full || k.How != leaderDies },
		Do: func(ctx context.Context, c *Cell) error {
			switch c.Case.How {
			case masterDies:
				return doMasterDies(ctx, c)
			case nodeEmptied:
				return doNodeEmptied(ctx, c)
			}
			return doLeaderDies(ctx, c)
		},
	}
}

// holder is one who has the lock, or thinks so.
type holder struct {
	contender.Held
	ends time.Time // by its own reckoning
}

// take has a new client on some servers take a name.
func (c *Cell) take(ctx context.Context, name string, addrs ...string) (holder, error) {
	c.Site = &site.Site{Setup: c.Contender.Setup, Addrs: addrs}
	client, err := c.Open(ctx)
	if err != nil {
		return holder{}, err
	}
	// It is free: who cannot take it soon has gone to sleep over it.
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	ends := time.Now().Add(c.TTL())
	held, err := client.Acquire(ctx, name)
	return holder{held, ends}, err
}

// believes reports whether the holder still takes itself for one.
func (h holder) believes() bool {
	if w, ok := h.Held.(contender.Watched); ok {
		return w.Context().Err() == nil
	}
	if d, ok := h.Held.(contender.Dated); ok {
		return time.Now().Before(d.Deadline())
	}
	return time.Now().Before(h.ends)
}

// judge has A take a name from some servers, then a fault happen, and B try to take the name from others. If it cannot
// within three seconds, A alone holds.
func (c *Cell) judge(ctx context.Context, fromA, fromB []string, fault func() error) error {
	name := c.LockName()
	a, err := c.take(ctx, name, fromA...)
	if err != nil {
		return fmt.Errorf("the first holder, A: %w", err)
	}
	if err := fault(); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	b, err := c.take(within, name, fromB...)
	if err != nil && within.Err() == nil {
		return fmt.Errorf("the second holder, B: %w", err)
	}
	if err != nil || !a.believes() {
		c.Put("two hold", 0)
		return nil
	}
	c.Put("two hold", 100)
	apart := 0.
	if a.Token() > 0 && b.Token() > a.Token() {
		apart = 100
	}
	c.Put("told apart", apart)
	return nil
}

func doMasterDies(ctx context.Context, c *Cell) error {
	g, err := servers.StartReplicatedRedis(ctx, 1, servers.RedisOptions{})
	if err != nil {
		return err
	}
	defer g.Close()
	replica := g.Replicas[0]
	if err := replica.Pause(); err != nil {
		return err
	}
	if _, err := g.Master.Do(ctx, "CLIENT", "KILL", "TYPE", "replica"); err != nil {
		return err
	}
	return c.judge(ctx, []string{g.Master.Addr()}, []string{replica.Addr()}, func() error {
		if err := errors.Join(g.Master.Kill(), replica.Resume()); err != nil {
			return err
		}
		_, err := replica.Do(ctx, "REPLICAOF", "NO", "ONE")
		return err
	})
}

func doNodeEmptied(ctx context.Context, c *Cell) error {
	nodes, err := servers.StartRedisSet(ctx, 5, servers.RedisOptions{Args: []string{"--appendonly", "no"}})
	if err != nil {
		return err
	}
	var addrs []string
	for _, n := range nodes {
		defer n.Close()
		addrs = append(addrs, n.Addr())
	}
	if err := errors.Join(nodes[3].Kill(), nodes[4].Kill()); err != nil {
		return err
	}
	return c.judge(ctx, addrs, addrs, func() error {
		// What A sent to the nodes that were down must have been given up before they come
		// back, or it holds there after all.
		err := contender.Pause(ctx, 2*time.Second)
		for _, n := range []*servers.Redis{nodes[3], nodes[4], nodes[0]} {
			if err == nil {
				err = n.RestartEmpty(ctx)
			}
		}
		return err
	})
}

func doLeaderDies(ctx context.Context, c *Cell) error {
	if err := c.On(site.Start(ctx, c.Contender.Setup, nil)); err != nil {
		return err
	}
	clients, err := c.OpenN(ctx, 3)
	if err != nil {
		return err
	}
	kill, err := leader(ctx, c.Site)
	if err != nil {
		return err
	}
	// Everybody works when the leader dies.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		died      atomic.Bool
		ready, wg sync.WaitGroup
		first     = make([]time.Time, len(clients)) // who had a lock that was asked for afterwards
	)
	for i, client := range clients {
		name := c.LockName()
		ready.Add(1)
		wg.Go(func() { first[i] = worksUntil(ctx, client, name, &died, sync.OnceFunc(ready.Done)) })
	}
	ready.Wait()
	if err := contender.Pause(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	start := time.Now()
	if err := kill(); err != nil {
		return err
	}
	died.Store(true)
	within(&wg, 30*time.Second)
	cancel()
	wg.Wait()
	first = slices.DeleteFunc(first, time.Time.IsZero)
	if len(first) == 0 {
		return fmt.Errorf("nobody could acquire for 30 s: %s", c.Contender.Setup)
	}
	c.Put("nobody", millis(slices.MinFunc(first, time.Time.Compare).Sub(start)))
	if len(first) == len(clients) {
		c.Put("slowest client", millis(slices.MaxFunc(first, time.Time.Compare).Sub(start)))
	}
	return nil
}

// worksUntil takes a name again and again, and returns when it first had it that was asked for after the leader died; zero if
// ctx ended before. It calls ready each time.
func worksUntil(ctx context.Context, client contender.Client, name string, died *atomic.Bool, ready func()) time.Time {
	for ctx.Err() == nil {
		after := died.Load()
		within, done := context.WithTimeout(ctx, 20*time.Second)
		held, err := client.Acquire(within, name)
		got := time.Now()
		if err == nil {
			err = held.Release(within)
			ready()
			if after {
				done()
				return got
			}
		}
		done()
		if err != nil {
			_ = contender.Pause(ctx, 10*time.Millisecond)
		}
	}
	ready()
	return time.Time{}
}

// leader returns how to kill it.
func leader(ctx context.Context, s *site.Site) (kill func() error, err error) {
	if s.Etcd != nil {
		l, err := s.Etcd.Leader(ctx)
		if err != nil {
			return nil, err
		}
		return l.Kill, nil
	}
	l, err := s.ZooKeeper.Leader(ctx)
	if err != nil {
		return nil, err
	}
	return l.Kill, nil
}
