package servers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// slots is how many slots a Redis Cluster divides its keys into.
const slots = 16384

// RedisCluster is a Redis Cluster of masters without replicas.
type RedisCluster struct {
	Nodes []*Redis
}

// StartRedisCluster starts n masters that share the slots evenly, and returns when all
// of them see the cluster as complete.
func StartRedisCluster(ctx context.Context, n int, opts RedisOptions) (*RedisCluster, error) {
	if opts.TLS {
		return nil, errors.New("servers: a Redis Cluster with TLS is not offered")
	}
	c := &RedisCluster{}
	return orClose(c, c.start(ctx, n, opts))
}

func (c *RedisCluster) start(ctx context.Context, n int, opts RedisOptions) error {
	for range n {
		// A node that stands still for seconds is not taken for dead.
		r, err := startRedis(ctx, opts, func(*Redis) []string {
			return []string{"cluster-enabled yes", "cluster-node-timeout 60000"}
		})
		if err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, r)
	}
	if err := c.share(ctx); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// share gives every node its share of the slots.
func (c *RedisCluster) share(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	for i, r := range c.Nodes {
		first, next := i*slots/len(c.Nodes), (i+1)*slots/len(c.Nodes)
		for _, step := range [][]string{
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
			{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(next - 1)},
		} {
			if _, err := r.Do(ctx, step...); err != nil {
				return err
			}
		}
	}
	return nil
}

// meet makes a node acquainted with the others.
func (c *RedisCluster) meet(ctx context.Context, r *Redis) error {
	for _, to := range c.Nodes {
		if to == r {
			continue
		}
		if _, err := r.Do(ctx, "CLUSTER", "MEET", host, to.ports[0].String(), to.ports[1].String()); err != nil {
			return err
		}
	}
	return nil
}

// WaitReady waits until every node sees all nodes and all slots served. A node that sees too few is told of the others, again if
// it has forgotten them because they did not answer in time.
func (c *RedisCluster) WaitReady(ctx context.Context) error {
	want := []string{
		"cluster_state:ok",
		fmt.Sprintf("cluster_slots_ok:%d", slots),
		fmt.Sprintf("cluster_known_nodes:%d", len(c.Nodes)),
	}
	return pollRedis(ctx, "cluster node", c.Nodes, func(ctx context.Context, r *Redis) error {
		v, err := r.Do(ctx, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		text, _ := v.(string)
		_, rest, _ := strings.Cut(text, "cluster_known_nodes:")
		var known int
		if _, _ = fmt.Sscan(rest, &known); known < len(c.Nodes) {
			return errors.Join(fmt.Errorf("it sees %d nodes", known), c.meet(ctx, r))
		}
		for _, w := range want {
			if !strings.Contains(text, w+"\r\n") {
				return fmt.Errorf("not yet %s", w)
			}
		}
		return nil
	})
}

// Addrs returns the addresses of the nodes.
func (c *RedisCluster) Addrs() []string { return addrsOf(c.servers()) }

// NodeOf returns the node that serves the slot of a key.
func (c *RedisCluster) NodeOf(ctx context.Context, key string) (*Redis, error) {
	slot, err := c.SlotOf(ctx, key)
	if err != nil {
		return nil, err
	}
	v, err := c.Nodes[0].Do(ctx, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, err
	}
	// Each range is [first, last, [address, port, id, ...], replicas...].
	ranges, _ := v.([]any)
	for _, x := range ranges {
		rng, _ := x.([]any)
		if len(rng) < 3 {
			continue
		}
		first, _ := rng[0].(int64)
		last, _ := rng[1].(int64)
		node, _ := rng[2].([]any)
		if slot < first || slot > last || len(node) < 2 {
			continue
		}
		for _, r := range c.Nodes {
			if r.ports[0].String() == fmt.Sprint(node[1]) {
				return r, nil
			}
		}
	}
	return nil, fmt.Errorf("nobody serves slot %d", slot)
}

// SlotOf returns the slot of a key.
func (c *RedisCluster) SlotOf(ctx context.Context, key string) (int64, error) {
	v, err := c.Nodes[0].Do(ctx, "CLUSTER", "KEYSLOT", key)
	if err != nil {
		return 0, err
	}
	slot, _ := v.(int64)
	return slot, nil
}

func (c *RedisCluster) servers() []*Server { return serversOf(c.Nodes) }

// Close ends all nodes for good.
func (c *RedisCluster) Close() error { return closeAll(c.servers()) }
