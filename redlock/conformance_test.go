package redlock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// durable servers keep their data when they are killed.
var durable = servers.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "no"}}

func TestConformance(t *testing.T) {
	t.Parallel()
	suite(t, nil, func(set []*servers.Redis) []string { return addrs(set) })
}

// TestConformanceWithoutFencing: all but the tokens. The first question is another one.
func TestConformanceWithoutFencing(t *testing.T) {
	t.Parallel()
	suite(t, nil, func(set []*servers.Redis) []string { return addrs(set) }, WithoutFencing())
}

// TestConformanceWithTwoDead: what is promised of five nodes is kept by three.
func TestConformanceWithTwoDead(t *testing.T) {
	t.Parallel()
	suite(t, []int{1, 3}, func(set []*servers.Redis) []string {
		for _, i := range []int{1, 3} {
			must(t, set[i].Kill())
		}
		return addrs(set)
	})
}

// TestConformanceWithOneBlackHole: one node accepts connections and never answers.
func TestConformanceWithOneBlackHole(t *testing.T) {
	t.Parallel()
	suite(t, []int{2}, func(set []*servers.Redis) []string {
		list := addrs(set)
		p := locktest.Front(t, list[2])
		p.BlackHole()
		list[2] = p.Addr()
		return list
	})
}

// suite runs the conformance suite over five servers of which those in dead do not
// answer, with the options added to all others.
func suite(t *testing.T, dead []int, prepare func([]*servers.Redis) []string, added ...locker.Option) {
	if !conformance.InChild() {
		servers.Need(t)
	}
	var nodes []string
	var alive []*servers.Redis
	var start sync.Once
	conformance.Run(t, conformance.Backend{
		New: func(tb testing.TB) *conformance.Harness {
			start.Do(func() {
				set := servers.NewRedisSet(t, 5, durable)
				nodes = prepare(set)
				for i, r := range set {
					if !slices.Contains(dead, i) {
						alive = append(alive, r)
					}
				}
			})
			if nodes == nil {
				tb.SkipNow()
			}
			return harness(tb, nodes, alive, added)
		},
		Dial: func(_ context.Context, address string, opts ...locker.Option) (locker.Locker, error) {
			return dial(strings.Split(address, ","), slices.Concat(added, opts)...)
		},
		Fenced:     len(added) == 0,
		Shared:     true,
		Downgrade:  true,
		Inspect:    true,
		Evict:      true,
		AtLeast:    true,
		Durable:    true,
		TTL:        time.Second,
		IdleRate:   1,
		RequireAll: true,
		Variant:    len(dead)+len(added) > 0,
	})
}

func dial(nodes []string, opts ...locker.Option) (locker.Locker, error) {
	return dialWith(nodes, func(*goredis.Options) {}, opts...)
}

func dialWith(nodes []string, change func(*goredis.Options), opts ...locker.Option) (locker.Locker, error) {
	var clients []goredis.UniversalClient
	for _, addr := range nodes {
		o := options(addr)
		change(o)
		c := goredis.NewClient(o)
		clients, opts = append(clients, c), append(opts, locker.WithOnClose(c.Close))
	}
	return New(clients, opts...)
}

func harness(t testing.TB, nodes []string, alive []*servers.Redis, added []locker.Option) *conformance.Harness {
	var list []string
	for _, r := range alive {
		list = append(list, r.Addr())
	}
	operators := connect(t, list...)
	return &conformance.Harness{
		Address: strings.Join(nodes, ","),
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			return dial(nodes, slices.Concat(added, opts)...)
		},
		OpenLink: func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
			return openLink(t, nodes, slices.Concat(added, opts))
		},
		Destroy: func(ctx context.Context, name string) error { return destroy(ctx, operators, name) },
		Leftovers: func(ctx context.Context, text string) (left []string, err error) {
			for i, c := range operators {
				keys, kerr := leftovers(ctx, c, text)
				err = errors.Join(err, kerr)
				for _, k := range keys {
					left = append(left, list[i]+" "+k)
				}
			}
			return left, err
		},
		Requests: func(ctx context.Context) (int64, error) { return servers.SumRequests(ctx, alive) },
		Stop: func(context.Context) error {
			return servers.Each(alive, func(r *servers.Redis) error { return r.Kill() })
		},
		Start: func(ctx context.Context) error {
			return servers.Each(alive, func(r *servers.Redis) error { return r.Restart(ctx) })
		},
		Misconfigured: map[string]func(context.Context, ...locker.Option) (locker.Locker, error){
			"wrong password": func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
				return dialWith(nodes, func(o *goredis.Options) { o.Username, o.Password = "nobody", "wrong" }, slices.Concat(added, opts)...)
			},
			"no permission": func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
				for _, c := range operators {
					if err := c.Do(ctx, "acl", "setuser", "reader", "on", ">secret", "~*", "&*", "+@read", "+@connection").Err(); err != nil {
						return nil, err
					}
				}
				return dialWith(nodes, func(o *goredis.Options) { o.Username, o.Password = "reader", "secret" }, slices.Concat(added, opts)...)
			},
		},
	}
}

// destroy deletes what those who hold name now, on more than half of the nodes, have there, and nothing of anybody
// who gets it while this is going on.
func destroy(ctx context.Context, nodes []goredis.UniversalClient, name string) error {
	const holders = `if redis.call('type', KEYS[1]).ok ~= 'hash' then return {string.sub(redis.call('get', KEYS[1]) or '', 3, 34)} end
return redis.call('hkeys', KEYS[1])`
	const remove = `if redis.call('type', KEYS[1]).ok ~= 'hash' then
	for _, id in ipairs(ARGV) do
		if string.sub(redis.call('get', KEYS[1]) or '', 3, 34) == id then redis.call('del', KEYS[1]) end
	end
	return 0
end
redis.call('hdel', KEYS[1], unpack(ARGV))
if redis.call('hlen', KEYS[1]) == 1 then redis.call('del', KEYS[1]) end -- only the weight is left
return 0`
	votes := make(map[string]int)
	for _, c := range nodes {
		ids, err := c.Eval(ctx, holders, []string{lockKey(name)}).StringSlice()
		if err != nil {
			return err
		}
		for _, id := range ids {
			votes[id]++
		}
	}
	delete(votes, "weight")
	delete(votes, "")
	var held []any
	for id, n := range votes {
		if n > len(nodes)/2 {
			held = append(held, id)
		}
	}
	for _, c := range nodes {
		if len(held) == 0 {
			break
		}
		if err := c.Eval(ctx, remove, []string{lockKey(name)}, held...).Err(); err != nil {
			return err
		}
	}
	return nil
}

func lockKey(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return fmt.Sprintf("redlock:{q%02x}:lock:%s", h.Sum32()>>24, name)
}

func queueKey(name string) string { return strings.Replace(lockKey(name), ":lock:", ":queue:", 1) }

// leftovers are the locks and queues on one server. The clocks stay by design, and
// the marks of withdrawn claims go by themselves.
func leftovers(ctx context.Context, c goredis.UniversalClient, text string) ([]string, error) {
	var left []string
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, "redlock:*", 1000).Result()
		if err != nil {
			return nil, err
		}
		for _, k := range keys {
			if (strings.Contains(k, ":lock:") || strings.Contains(k, ":queue:")) && strings.Contains(k, text) && !ofTheDead(ctx, c, k) {
				left = append(left, k)
			}
		}
		if cursor = next; cursor == 0 {
			return left, nil
		}
	}
}

// ofTheDead reports whether key is a queue in which only processes that are gone wait, which the
// server removes by itself.
func ofTheDead(ctx context.Context, c goredis.UniversalClient, key string) bool {
	waiters, _ := c.LRange(ctx, key, 0, -1).Result()
	for _, w := range waiters {
		channel := strings.Fields(w)[7]
		if listening, err := c.PubSubNumSub(ctx, channel).Result(); err != nil || listening[channel] > 0 {
			return false
		}
	}
	left, _ := c.PTTL(ctx, key).Result()
	return len(waiters) > 0 && left > 0
}

func openLink(t testing.TB, nodes []string, opts []locker.Option) (locker.Locker, conformance.Link, error) {
	s, fronts := proxies(t, nodes)
	l, err := dial(fronts, opts...)
	return l, conformance.Link{Freeze: s.Freeze, Mute: s.FreezeDown, Cut: s.CutOff, Heal: s.Heal}, err
}
