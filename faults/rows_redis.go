package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

// What only a Redis can do to a lock.
var redisRows = []Row{
	{Number: 18, Name: "restarts-empty", Quick: true, Run: restartsEmpty, For: []string{"redis-empty"},
		See: "the token does not go back"},
	{Number: 19, Name: "failover-before-replication", Quick: true, Run: lostFailover, Fresh: true, For: []string{"redis-replica"},
		See: "two holders cannot be prevented; the second has the greater token; the resource stays correct"},
	{Number: 26, Name: "eviction", Run: eviction, Fresh: true, For: []string{"redis-empty"},
		See: "lost soon after"},
	{Number: 27, Name: "out-of-memory", Run: outOfMemory, Fresh: true, For: []string{"redis-empty"},
		See: "acquire errs, release works"},
	{Number: 28, Name: "refusals", Run: refusals, Fresh: true, For: []string{"redis-empty"},
		See: "an error that names what the server said; never \"not mine\", never \"held\""},
	{Number: 28, Name: "cluster-down", Run: clusterDown, Fresh: true, For: []string{"redis-cluster"},
		See: "an error that names what the server said; waiters go on after"},
	{Number: 37, Name: "slot-migrated", Run: slotMigrated, Fresh: true, For: []string{"redis-cluster"},
		See: "one slot per name; MOVED and ASK are followed"},
}

// A Redis without persistence is killed and comes back empty, while a lock is held.
func restartsEmpty(x *Exam) {
	name := x.Lock()
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	x.Warm(b)
	ha := x.Acquired(a, name, 10*time.Second)
	x.Did("kill, start empty", true, "", func() error {
		return errors.Join(x.All[0].Kill(), x.All[0].RestartEmpty(x.Within(30*time.Second)))
	})
	hb := x.Acquired(b, name, 10*time.Second)
	x.Fenced(ha, hb)
	x.Told(ha, x.Backend.TTL+noise)
	x.Released(hb)
}

// The master dies with a lock that its replica never saw.
func lostFailover(x *Exam) {
	x.TwoHold = true
	x.Access.TTL = believing
	name := x.Lock()
	a, netA := x.Player("A")
	b, netB := x.Player("B")
	x.Warm(a, b)
	master, replica := x.Replicated.Master, x.Replicated.Replicas[0]
	do := func(r *servers.Redis, args ...string) any {
		v, err := r.Do(x.Within(10*time.Second), args...)
		x.Must(err)
		return v
	}
	do(master, "SET", "control", "seen")
	x.Until("the replica is in step", 10*time.Second, func() bool { return do(replica, "GET", "control") == "seen" })
	x.Must(replica.Pause())
	do(master, "CLIENT", "KILL", "TYPE", "replica") // what is on the wire would still arrive
	do(master, "SET", "control", "unseen")

	ha := x.Acquired(a, name, 10*time.Second)
	x.Did("fail over to a replica that never saw the lock", true, "", func() error {
		if err := errors.Join(master.Kill(), replica.Resume()); err != nil {
			return err
		}
		do(replica, "REPLICAOF", "NO", "ONE")
		netB.Proxies[0].SetTarget(replica.Addr())
		netB.Cut()
		return nil
	})
	if v := do(replica, "GET", "control"); v != "seen" {
		x.Fatalf("the replica has %v, want what was there before it was stopped, and nothing later", v)
	}
	hb := x.Acquired(b, name, believing)
	x.ToldApart(ha, hb)
	// A hears of the new master, and so of the loss.
	netA.Proxies[0].SetTarget(replica.Addr())
	netA.Cut()
	x.Told(ha, believing+noise)
	x.Released(hb)
	x.Must(master.Restart(x.Within(30 * time.Second)))
	x.Litter = nil // the old master comes back with the lock that it had, until its TTL
}

// The server throws keys away to make room.
func eviction(x *Exam) {
	r := x.Redis[0]
	x.config(r, "maxmemory-policy", "volatile-lru")
	name := x.Lock()
	a, _ := x.Player("A")
	ha := x.Acquired(a, name, 10*time.Second)
	evicted := func() bool {
		keys, err := r.Do(x.Within(5*time.Second), "KEYS", "*lock:"+name)
		list, _ := keys.([]any)
		return err == nil && len(list) == 0
	}
	var at time.Time
	x.Did("evict", true, "", func() error {
		// As little room as there can be: every key that may go has to.
		x.config(r, "maxmemory", "1mb")
		x.Until("the lock is evicted", 20*time.Second, func() bool {
			_, _ = r.Do(x.Within(5*time.Second), "SET", "filler", strings.Repeat("x", 1<<16), "EX", "100")
			return evicted()
		})
		at = time.Now()
		return nil
	})
	x.Told(ha, time.Second+noise)
	x.Logf("told %v after the eviction", time.Since(at))
	x.config(r, "maxmemory", "0")
}

func (x *Exam) config(r *servers.Redis, name, value string) {
	x.Helper()
	_, err := r.Do(x.Within(10*time.Second), "CONFIG", "SET", name, value)
	x.Must(err)
}

// There is no room, and nothing may be thrown away.
func outOfMemory(x *Exam) {
	r := x.Redis[0]
	name := x.Lock()
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	ha := x.Acquired(a, name, 10*time.Second)
	x.Warm(b)
	x.config(r, "maxmemory-policy", "noeviction")
	x.config(r, "maxmemory", "1mb")
	x.names3(b, "OOM")
	start := time.Now()
	x.Released(ha)
	x.Soon("release", start, time.Second)
	x.config(r, "maxmemory", "0")
	x.Warm(a, b)
}

// names3 asserts that both ways to take a lock say what the server said.
func (x *Exam) names3(p *Player, word string) {
	x.Helper()
	for op, take := range map[string]func(context.Context, string) (*Holding, error){"acquire": p.Acquire, "try": p.Try} {
		within := 2 * time.Second
		start := time.Now()
		h, err := take(x.Within(within), x.Lock())
		x.Soon(op, start, within)
		if err == nil {
			x.Errorf("%s succeeded on a server that says %s", op, word)
			_ = h.Release(x.Ctx)
			continue
		}
		var known *locker.Error
		if !strings.Contains(err.Error(), word) || !errors.As(err, &known) {
			x.Errorf("%s: %v, want an error that names %s", op, err, word)
		}
		if errors.Is(err, locker.ErrNotAcquired) || errors.Is(err, locker.ErrLost) {
			x.Errorf("%s: %v says more than is known", op, err)
		}
	}
}

// The server answers, but not what was asked for.
func refusals(x *Exam) {
	r := x.Redis[0]
	do := func(args ...string) {
		x.Helper()
		_, err := r.Do(x.Within(20*time.Second), args...)
		x.Must(err)
	}
	a, _ := x.Player("A")
	x.Warm(a)

	do("REPLICAOF", "127.0.0.1", "1") // nobody there
	x.names3(a, "READONLY")
	do("REPLICAOF", "NO", "ONE")

	do("CONFIG", "SET", "min-replicas-to-write", "1")
	x.names3(a, "NOREPLICAS")
	do("CONFIG", "SET", "min-replicas-to-write", "0")

	do("CONFIG", "SET", "busy-reply-threshold", "10")
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		c := goredis.NewClient(&goredis.Options{Addr: r.Addr(), ReadTimeout: time.Minute, MaxRetries: -1, MaintNotificationsConfig: noNotifications()})
		defer c.Close()
		_ = c.Eval(x.Ctx, "while true do end", nil).Err()
	}()
	x.Until("the server is busy", 10*time.Second, func() bool {
		_, err := r.Do(x.Within(time.Second), "GET", "x")
		return err != nil && strings.Contains(err.Error(), "BUSY")
	})
	x.names3(a, "BUSY")
	do("SCRIPT", "KILL")
	<-busy

	x.Warm(a)
}

// One of three masters is dead: the others refuse their part, too.
func clusterDown(x *Exam) {
	a, _ := x.Player("A")
	x.Warm(a)
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
	a, _ := x.Player("A")
	b, _ := x.Player("B")
	for _, name := range []string{"x", "{x}y", "a{", "{}", "}{", "{a}b{c}", "n/{/}"} {
		name = x.use(fmt.Sprintf("%s-%s", name, x.label))
		x.Released(x.Acquired(a, name, 10*time.Second))
	}
	name := x.Lock()
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
