package redis

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
)

func Benchmark(b *testing.B) {
	server := servers.NewRedis(b, servers.RedisOptions{})
	sent := regexp.MustCompile(`cmdstat_(?:evalsha|eval|subscribe):calls=(\d+)`)
	conformance.Benchmark(b, func(t testing.TB) *conformance.Harness {
		h := site{addrs: []string{server.Addr()}}.harness(t, single)
		// The usual way to count, by MONITOR, slows the server down.
		h.Requests = func(ctx context.Context) (n int64, _ error) {
			info, err := server.Do(ctx, "INFO", "commandstats")
			for _, calls := range sent.FindAllStringSubmatch(fmt.Sprint(info), -1) {
				c, _ := strconv.ParseInt(calls[1], 10, 64)
				n += c
			}
			return n, err
		}
		return h
	})
}

// The least that a lock with a random value can do: SET NX PX and a release that
// compares, both as scripts. It has no token, no queue and no renewal.
var (
	bareTake = goredis.NewScript(`if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 1 end return 0`)
	bareFree = goredis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)
)

// BenchmarkAlone compares taking and releasing a free name with that floor, in turns
// so that both have the same of a noisy machine.
func BenchmarkAlone(b *testing.B) {
	r := servers.SharedRedis(b)
	ctx := context.Background()
	client := connect(b, r.Addr())
	l := open(b, client)
	name := freshName(b)
	bare := func() {
		if v, err := bareTake.Run(ctx, client, []string{name}, "0123456789abcdef0123456789abcdef", 15000).Int(); err != nil || v != 1 {
			b.Fatal(v, err)
		}
		if v, err := bareFree.Run(ctx, client, []string{name}, "0123456789abcdef0123456789abcdef").Int(); err != nil || v != 1 {
			b.Fatal(v, err)
		}
	}
	ours := func() {
		lock, err := l.Acquire(ctx, name)
		must(b, err)
		must(b, lock.Release(ctx))
	}
	const slice = 200
	var mine, floor []time.Duration
	for b.Loop() {
		for _, do := range []func(){ours, bare} {
			began := time.Now()
			for range slice {
				do()
			}
			took := time.Since(began) / slice
			if len(mine) == len(floor) {
				mine = append(mine, took)
			} else {
				floor = append(floor, took)
			}
		}
	}
	slices.Sort(mine)
	slices.Sort(floor)
	m, f := mine[len(mine)/2], floor[len(floor)/2]
	b.ReportMetric(float64(time.Second)/float64(m), "acq/s")
	b.ReportMetric(float64(f)/float64(m), "of-floor")
	b.ReportMetric(0, "ns/op")
}
