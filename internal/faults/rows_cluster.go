package faults

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

// What can happen to a Cluster.

// One of three masters is dead: the others refuse their part, too.
func clusterDown(x *Exam) {
	a, _ := x.Player("A")
	x.Warm(a)
	for _, r := range x.Redis {
		_, err := r.Do(x.Within(5*time.Second), "CONFIG", "SET", "cluster-node-timeout", "5000")
		x.Must(err)
	}
	node := x.Cluster.Nodes[2]
	x.Must(node.Kill())
	x.Until("the Cluster is down", 20*time.Second, func() bool {
		v, err := x.Redis[0].Do(x.Within(5*time.Second), "CLUSTER", "INFO")
		text, _ := v.(string)
		return err == nil && strings.Contains(text, "cluster_state:fail")
	})
	// A name of a node that is up.
	name := ""
	for name == "" {
		candidate := x.Lock()
		if slot, err := x.Cluster.SlotOf(x.Within(5*time.Second), candidate); err == nil && slot < 5000 {
			name = candidate
		}
	}
	_, err := a.Try(x.Within(3*time.Second), name)
	if err == nil || errors.Is(err, locker.ErrNotAcquired) {
		x.Errorf("try: %v, want what the server said", err)
	} else {
		x.Logf("try: %v", err)
	}
	x.Must(node.Restart(x.Within(time.Minute)))
	x.Must(x.Cluster.WaitReady(x.Within(time.Minute)))
	x.Warm(a)
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
	var key string
	_ = x.onKeys(ctx, "*lock:"+name, func(_ *servers.Redis, k string) error { key = k; return nil })
	if key == "" {
		return errors.New("the lock's key is not there")
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
