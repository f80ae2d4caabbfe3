package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What can happen to a Cluster.

// One of three masters is dead: the others refuse their part, too.
func clusterDown(x *Exam) {
	two := x.holderAndWaiter(limit)
	x.Access.TTL = time.Minute // no lock of C's ends by itself while the Cluster is down
	c, _ := x.Player("C")
	has, _, err := x.keyOf(x.Within(10*time.Second), two.name)
	x.Must(err)
	dead := x.Cluster.Nodes[0]
	if dead == has {
		dead = x.Cluster.Nodes[1]
	}
	// elsewhere returns a lock whose key is on a node that stays up: of the others nobody says anything.
	elsewhere := func() *Holding {
		for {
			h := x.Acquired(c, x.Lock(), 10*time.Second)
			node, _, err := x.keyOf(x.Within(10*time.Second), h.name)
			x.Must(err)
			if node != dead {
				return h
			}
			x.Released(h)
		}
	}
	held, free := elsewhere(), elsewhere()
	x.Released(free)

	for _, r := range x.Redis {
		x.redis(r, "CONFIG", "SET", "cluster-node-timeout", "5000")
	}
	x.Must(dead.Kill())
	for _, r := range x.Redis {
		if r == dead {
			continue
		}
		x.Until("the Cluster is down", 20*time.Second, func() bool {
			v, err := r.Do(x.Within(5*time.Second), "CLUSTER", "INFO")
			text, _ := v.(string)
			return err == nil && strings.Contains(text, "cluster_state:fail")
		})
	}
	x.explains("a Cluster that is down", c.client, func() string { return free.name }, false, "CLUSTERDOWN")
	x.keepsReleasing("a Cluster that is down", held, "CLUSTERDOWN")
	x.Must(dead.Restart(x.Within(time.Minute)))
	x.Must(x.Cluster.WaitReady(x.Within(time.Minute)))
	back := time.Now()
	x.releaseUnlessLost(two.held)
	x.Released(x.GoesOn(two.wait, back, x.Backend.Death+10*time.Second, "the Cluster was back"))
	x.AtOnce(two.b, held.name, undone)
	x.Warm(two.a, two.b, c)
}

// keyOf returns the key of a lock that is held, and the node that has it.
func (x *Exam) keyOf(ctx context.Context, name string) (node *servers.Redis, key string, err error) {
	err = x.onKeys(ctx, "*lock:"+name, func(r *servers.Redis, k string) error { node, key = r, k; return nil })
	if err == nil && key == "" {
		err = errors.New("the lock's key is not there")
	}
	return node, key, err
}

// The slot of a name moves to another node of the Cluster, once while it is waited for.
func slotMigrated(x *Exam) {
	name, a, b := x.pair()
	for _, name := range []string{"x", "{x}y", "a{", "{}", "}{", "{a}b{c}", "n/{/}"} {
		name = x.use(fmt.Sprintf("%s-%s", name, x.label))
		x.Released(x.Acquired(a, name, 10*time.Second))
	}
	ha := x.Acquired(a, name, 10*time.Second)
	wait := x.Waits(b, name, 30*time.Second)
	x.Did("migrate the slot", false, "", func() error { return x.migrate(name) })
	x.Released(ha)
	released := time.Now()
	hb := x.GoesOn(wait, released, 22*time.Second, "the release")
	if hb.Lock.Token() <= ha.Lock.Token() {
		x.Errorf("token %d after %d", hb.Lock.Token(), ha.Lock.Token())
	}
	x.Released(hb)
	x.Warm(a, b)
}

// migrate moves the slot of a lock to another node.
func (x *Exam) migrate(name string) error {
	ctx := x.Within(20 * time.Second)
	_, key, err := x.keyOf(ctx, name)
	if err != nil {
		return err
	}
	slot, err := x.Cluster.SlotOf(ctx, key)
	if err != nil {
		return err
	}
	from, err := x.Cluster.NodeOf(ctx, key)
	if err != nil {
		return err
	}
	to := x.Cluster.Nodes[0]
	if to == from {
		to = x.Cluster.Nodes[1]
	}
	id := func(r *servers.Redis) string {
		v, e := r.Do(ctx, "CLUSTER", "MYID")
		err = errors.Join(err, e)
		return fmt.Sprint(v)
	}
	fromID, toID, n := id(from), id(to), fmt.Sprint(slot)
	do := func(r *servers.Redis, args ...string) any {
		v, e := r.Do(ctx, args...)
		err = errors.Join(err, e)
		return v
	}
	do(to, "CLUSTER", "SETSLOT", n, "IMPORTING", fromID)
	do(from, "CLUSTER", "SETSLOT", n, "MIGRATING", toID)
	host, port, _ := strings.Cut(to.Addr(), ":")
	for err == nil {
		keys, _ := do(from, "CLUSTER", "GETKEYSINSLOT", n, "1").([]any)
		if len(keys) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond) // long enough for a request to meet a slot on the move
		do(from, "MIGRATE", host, port, fmt.Sprint(keys[0]), "0", "5000")
	}
	for _, r := range x.Cluster.Nodes {
		do(r, "CLUSTER", "SETSLOT", n, "NODE", toID)
	}
	return err
}
