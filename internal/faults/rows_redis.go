package faults

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// What only a Redis can do to a lock.
var redisRows = []Row{
	{Number: 18, Shows: []int{2}, Name: "restarts-empty", Quick: true, Run: restartsEmpty, For: []string{"redis-empty"},
		See: "the token does not go back"},
	{Number: 19, Shows: []int{2}, Name: "failover-before-replication", Quick: true, Run: lostFailover, Fresh: true, For: []string{"redis-replica", "redis-sentinel"},
		See: "two holders cannot be prevented; the second has the greater token; the resource stays correct"},
	{Number: 26, Shows: []int{3, 13}, Name: "eviction", Run: eviction, Fresh: true, For: onAnyRedis, Backend: withOptions(servers.RedisOptions{}),
		See: "lost soon after; with redis.New a warning about the policy before"},
	{Number: 27, Shows: []int{13}, Name: "out-of-memory", Run: outOfMemory, Fresh: true, For: onAnyRedis, Backend: withOptions(servers.RedisOptions{}),
		See: "acquire errs, release works"},
	{Number: 28, Shows: []int{13}, Name: "refusals", Run: refusals, Fresh: true, For: onAnyRedis, Backend: withOptions(servers.RedisOptions{}),
		See: "acquire and release err and name what the server said (MISCONF, NOREPLICAS; where a server can be made to say so also READONLY, BUSY, LOADING); never \"not mine\", never \"held\"; afterwards what was released is free and what was held is held"},
	{Number: 28, Shows: []int{13}, Name: "cluster-down", Run: clusterDown, Fresh: true, For: []string{"redis-cluster"},
		See: "acquire and release err and name what the server said; waiters go on after, and what was released is free"},
	{Number: 37, Shows: []int{14}, Name: "slot-migrated", Run: slotMigrated, Fresh: true, For: []string{"redis-cluster"},
		See: "one slot per name; MOVED and ASK are followed"},
}

// onAnyRedis are the setups with one kind of Redis each.
var onAnyRedis = []string{"redis-1", "redis-replica", "redis-sentinel", "redis-cluster", "redlock-5"}

// A Redis without persistence is killed and comes back empty, while a lock is held.
func restartsEmpty(x *Exam) {
	name, a, b := x.pair()
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
	x.secondHolder(forgotten{
		ttl:     x.outlasting(),
		how:     "fail over to a replica that never saw the lock",
		prepare: func(*Network) { x.replicaStops() },
		forget:  func(_ string, nets []*Network) error { return x.failOverUnseen(nets) },
	})
	x.masterReturns()
}

// The servers throw keys away to make room.
func eviction(x *Exam) {
	x.Access.TTL = long // the holder is not told by its deadline
	name := x.Lock()
	x.config("maxmemory-policy", "volatile-lru")
	x.config("maxmemory", "100mb")
	var said eventually.Output
	x.Access.logger = slog.New(slog.NewTextHandler(&said, nil))
	a, _ := x.Player("A")
	ha := x.Acquired(a, name, 10*time.Second)
	if x.Backend.Family == redisFamily {
		x.Until("the policy is warned of", 10*time.Second, func() bool { return strings.Contains(said.String(), "volatile-lru") })
	}
	x.Did("evict", true, "", func() error {
		x.config("maxmemory", "1") // there is no room: every key that may go has to
		x.Until("the lock is evicted", 20*time.Second, func() bool {
			keys := 0
			err := x.onKeys(x.Within(5*time.Second), "*lock:"+name, func(r *servers.Redis, _ string) error {
				if slices.Contains(x.masters(), r) {
					keys++
				}
				return nil
			})
			return err == nil && keys == 0
		})
		return nil
	})
	x.Told(ha, time.Second+noise)
	x.config("maxmemory", "0")
}

// redis sends a command to a server and returns the reply.
func (x *Exam) redis(r *servers.Redis, args ...string) any {
	x.Helper()
	v, err := r.Do(x.Within(20*time.Second), args...)
	x.Must(err)
	return v
}

// masters are the servers that writes go to.
func (x *Exam) masters() []*servers.Redis {
	x.Helper()
	if x.Replicated == nil {
		return x.Redis
	}
	master, _, err := x.roles(x.Within(time.Minute))
	x.Must(err)
	return []*servers.Redis{master}
}

// all sends a command to every master.
func (x *Exam) all(args ...string) {
	x.Helper()
	for _, r := range x.masters() {
		x.redis(r, args...)
	}
}

func (x *Exam) config(name, value string) { x.Helper(); x.all("CONFIG", "SET", name, value) }

// There is no room, and nothing may be thrown away.
func outOfMemory(x *Exam) {
	x.Access.TTL = long // the lock is to be held until there is no room
	name, a, b := x.pair()
	ha := x.Acquired(a, name, 10*time.Second)
	x.Warm(b)
	defer x.config("maxmemory", "0") // also for a row that begins again
	x.config("maxmemory-policy", "noeviction")
	x.config("maxmemory", "1")
	x.Explains("out of memory", b.client, false, "OOM")
	start := time.Now()
	x.Released(ha)
	x.Soon("release", start, time.Second)
	x.config("maxmemory", "0")
	x.Warm(a, b)
}
