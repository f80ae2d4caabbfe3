package redisnode

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/internal/servers"
)

func TestCost2(t *testing.T) {
	server := servers.NewRedis(t, servers.RedisOptions{})
	n := open(t, server.Addr())
	ctx := context.Background()
	cpu := func() float64 {
		v, _ := server.Do(ctx, "INFO", "cpu")
		f := func(k string) float64 { x, _ := strconv.ParseFloat(field(v.(string), k), 64); return x }
		return f("used_cpu_user_main_thread") + f("used_cpu_sys_main_thread")
	}
	sc := newScripts(false)
	id := func(i int) string { return fmt.Sprintf("%032x", i) }
	latest := time.Now().UnixMicro() + 1e9
	run := func(what string, s *script, args func(i int) []any) {
		n.client.ScriptLoad(ctx, s.text)
		best := 1e9
		for r := range 5 {
			pipe := n.client.Pipeline()
			for i := range 4000 {
				pipe.Process(ctx, s.call(ctx, args(i+r*4000), false))
			}
			before := cpu()
			cmds, err := pipe.Exec(ctx)
			best = min(best, (cpu()-before)*1e6/4000)
			if err != nil && err != goredis.Nil { t.Log(err) }
			if r == 0 { t.Log(cmds[3000].(once).Val()) }
		}
		t.Logf("%s %.2f us", what, best)
	}
	plain := func(i int) []any { return []any{4, "a", "b", "c", "d", id(i), 1, 2, 3, 4, latest, 0, "owner of it"} }
	all := strconv.Itoa(1<<31 - 1)
	run("empty", newScript("return 1"), plain)
	run("time", newScript("local t = redis.call('TIME') local now = t[1]*1000000+t[2] return 1"), plain)
	run("lib", newScript("local SHARED=false "+libLua+"return 1"), plain)
	run("setnx", newScript("return redis.call('SET', KEYS[1]..ARGV[1], ARGV[1], 'NX', 'PX', 10000)"), plain)
	take := func(i int) []any {
		return []any{4, "lock:" + id(i), "queue", "clock", "gone:" + id(i), id(i), all, all, 0, 10000, latest, 0, "owner of it"}
	}
	run("take", sc.acquire, take)
	run("release", sc.release, func(i int) []any {
		return []any{4, "lock:" + id(i), "queue", "clock", "gone:" + id(i), id(i), 0, 0, 0}
	})
	n.client.FlushAll(ctx)
	n.run(ctx, sc.acquire, "", take(0))
	sub := n.client.Subscribe(ctx, "chan")
	go func() { for { if _, err := sub.Receive(ctx); err != nil { return } } }()
	defer sub.Close()
	entry := func(i int) string { return fmt.Sprintf("1 %s %s %s 0 10000 1795452025932370 chan owner of it", id(i), all, all) }
	run("join", sc.acquire, func(i int) []any {
		return []any{4, "lock:" + id(0), "queue", "clock", "gone:" + id(i), id(i+1), all, all, 0, 10000, latest, 0, "owner of it", entry(i + 1)}
	})
	run("hand over", sc.release, func(i int) []any {
		return []any{4, "lock:" + id(0), "queue", "clock", "gone:" + id(i), id(i), 0, 0, 0}
	})
}
