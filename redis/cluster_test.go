package redis

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// All keys of a name are in one slot, whatever braces the name has; names of
// different buckets are spread over the nodes.
func TestOneSlotPerName(t *testing.T) {
	t.Parallel()
	c := servers.NewRedisCluster(t, 3, servers.RedisOptions{})
	client := closing(t, goredis.NewClusterClient(clusterOptions(c.Addrs(), nil)))
	a, b := open(t, client), open(t, closing(t, goredis.NewClusterClient(clusterOptions(c.Addrs(), nil))))
	for _, name := range []string{"plain", "{a}b", "a{b", "a}b", "{}", "}{", "{{x}}", "{00}", "a:{b}:c"} {
		name = t.Name() + name
		lock := acquire(t, a, name)
		w := wants(within(t, 20*time.Second), b, name)
		eventually.Is(t, "a waiter", func() bool { return client.LLen(context.Background(), queueKey(name)).Val() == 1 })
		release(t, lock)
		release(t, w.Granted(t, slack))
	}
	nodes := map[string]bool{}
	for i := range 100 {
		node, err := client.MasterForKey(context.Background(), lockKey(fmt.Sprint(i)))
		must(t, err)
		nodes[node.Options().Addr] = true
	}
	if len(nodes) != 3 {
		t.Errorf("100 names are on %d nodes of 3", len(nodes))
	}
}

// Row 37: a slot moves to another node while its name is held and waited for.
func TestSlotMovesWhileWaiting(t *testing.T) {
	t.Parallel()
	c := servers.NewRedisCluster(t, 3, servers.RedisOptions{})
	ctx := within(t, 2*time.Minute)
	open3 := func() locker.Locker {
		return open(t, closing(t, goredis.NewClusterClient(clusterOptions(c.Addrs(), nil))), locker.WithTTL(30*time.Second))
	}
	a, b, d := open3(), open3(), open3()
	name := freshName(t)
	lock := acquire(t, a, name)
	first, second := wants(ctx, b, name), (*locktest.Acquisition[*locker.Lock])(nil)
	onNode := func(args ...string) func() bool {
		return func() bool {
			node, err := c.NodeOf(ctx, lockKey(name))
			if err != nil {
				return false
			}
			v, _ := node.Do(ctx, args...)
			return v == int64(2)
		}
	}
	from, err := c.NodeOf(ctx, lockKey(name))
	must(t, err)
	eventually.Is(t, "a waiter", func() bool { v, _ := from.Do(ctx, "LLEN", queueKey(name)); return v == int64(1) })
	second = wants(ctx, d, name)
	eventually.Is(t, "two waiters", onNode("LLEN", queueKey(name)))

	move(ctx, t, c, name)
	// Whoever waited was told on the old node; they listen at the new one soon.
	eventually.Is(t, "two subscriptions at the new node", func() bool {
		node, err := c.NodeOf(ctx, lockKey(name))
		if err != nil || node == from {
			return false
		}
		v, _ := node.Do(ctx, "PUBSUB", "SHARDCHANNELS")
		list, _ := v.([]any)
		return len(list) == 2
	})
	if lock.Context().Err() != nil {
		t.Fatal(context.Cause(lock.Context()))
	}
	release(t, lock)
	next := first.Granted(t, 3*time.Second+slack)
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
	release(t, next)
	release(t, second.Granted(t, 3*time.Second+slack))
}

// While a slot is on its way commands of several keys are refused. Holders renew all
// the same, and requests get through when it has arrived.
func TestSlotIsMovingForLong(t *testing.T) {
	t.Parallel()
	c := servers.NewRedisCluster(t, 3, servers.RedisOptions{})
	ctx := within(t, 2*time.Minute)
	l := open(t, closing(t, goredis.NewClusterClient(clusterOptions(c.Addrs(), nil))), locker.WithTTL(30*time.Second))
	name := freshName(t)
	lock := acquire(t, l, name)
	twin := twinOf(name)
	other := acquire(t, l, twin) // the same bucket: one script renews both

	m := begin(ctx, t, c, name)
	m.carry(ctx, t, lockKey(name))
	eventually.Is(t, "both renewed", renewal(t, lock, other))
	w := wants(ctx, l, name)
	m.finish(ctx, t)
	release(t, lock)
	release(t, w.Granted(t, 3*time.Second+slack))
	release(t, other)
}

// twinOf is another name of the same bucket.
func twinOf(name string) string {
	for i := 0; ; i++ {
		if twin := name + strconv.Itoa(i); key("", twin)[:len("locker:{00}")] == key("", name)[:len("locker:{00}")] {
			return twin
		}
	}
}

// movement takes the slot of a name from one node to another.
type movement struct {
	c        *servers.RedisCluster
	slot     string
	from, to *servers.Redis
	id       map[*servers.Redis]string
}

func begin(ctx context.Context, t *testing.T, c *servers.RedisCluster, name string) *movement {
	t.Helper()
	slot, err := c.SlotOf(ctx, lockKey(name))
	must(t, err)
	m := &movement{c: c, slot: strconv.FormatInt(slot, 10), id: map[*servers.Redis]string{}}
	if m.from, err = c.NodeOf(ctx, lockKey(name)); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.Nodes {
		if r != m.from {
			m.to = r
		}
		m.id[r], _ = ask(ctx, t, r, "CLUSTER", "MYID").(string)
	}
	ask(ctx, t, m.to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.id[m.from])
	ask(ctx, t, m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.id[m.to])
	return m
}

// carry takes keys over.
func (m *movement) carry(ctx context.Context, t *testing.T, keys ...string) {
	t.Helper()
	host, port := m.to.Addr()[:9], m.to.Addr()[10:]
	ask(ctx, t, m.from, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
}

func (m *movement) finish(ctx context.Context, t *testing.T) {
	t.Helper()
	for {
		list, _ := ask(ctx, t, m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, "100").([]any)
		if len(list) == 0 {
			break
		}
		var keys []string
		for _, key := range list {
			keys = append(keys, fmt.Sprint(key))
		}
		m.carry(ctx, t, keys...)
	}
	for _, r := range []*servers.Redis{m.to, m.from} {
		ask(ctx, t, r, "CLUSTER", "SETSLOT", m.slot, "NODE", m.id[m.to])
	}
}

func move(ctx context.Context, t *testing.T, c *servers.RedisCluster, name string) {
	t.Helper()
	begin(ctx, t, c, name).finish(ctx, t)
}

func ask(ctx context.Context, t testing.TB, r *servers.Redis, args ...string) any {
	t.Helper()
	v, err := r.Do(ctx, args...)
	must(t, err)
	return v
}

// Row 28: a part of the Cluster is gone. What lies there is refused and waited for,
// what lies elsewhere goes on.
func TestClusterDown(t *testing.T) {
	t.Parallel()
	c := servers.NewRedisCluster(t, 3, servers.RedisOptions{Args: []string{"--cluster-require-full-coverage", "no"}})
	ctx := within(t, 60*time.Second)
	l := open(t, closing(t, goredis.NewClusterClient(clusterOptions(c.Addrs(), nil))))
	var here, there string
	for here == "" || there == "" {
		name := freshName(t)
		node, err := c.NodeOf(ctx, lockKey(name))
		must(t, err)
		if node == c.Nodes[0] {
			there = name
		} else {
			here = name
		}
	}
	release(t, acquire(t, l, here))
	release(t, acquire(t, l, there))
	must(t, c.Nodes[0].Kill())
	if _, err := l.TryAcquire(within(t, 20*time.Second), there); err == nil {
		t.Fatal("acquired on a node that is gone")
	} else {
		t.Log(err)
	}
	w := wants(ctx, l, there)
	release(t, acquire(t, l, here))
	must(t, c.Nodes[0].Restart(ctx))
	release(t, w.Granted(t, 20*time.Second))
}
