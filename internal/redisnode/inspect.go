package redisnode

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
)

// Look implements [driver.Inspector].
func (n *Node) Look(ctx context.Context, name string) ([]driver.Position, error) {
	c := n.Claim(&driver.Claim{Name: name})
	cmd, _, err := n.run(ctx, n.scripts.look, []string{c.lock, c.queue})
	if err != nil {
		return nil, err
	}
	answer, err := cmd.Slice() // the server's time, records of holders, records of those who wait
	if err != nil {
		return nil, err
	}
	var lists [2][]driver.Position
	for i, records := range answer[1:] {
		for _, record := range records.([]any) {
			p := position(name, record.(string), answer[0].(int64))
			if p.Held = i == 0; p.Held || p.ID != "" {
				lists[i] = append(lists[i], p)
			}
		}
	}
	holders, queue := lists[0], lists[1]
	for i, p := range queue {
		if j := slices.IndexFunc(holders, func(h driver.Position) bool { return h.ID == p.ID }); j >= 0 {
			queue[i] = holders[j] // granted the name before others that are ahead of it
			holders = slices.Delete(holders, j, j+1)
		}
	}
	return append(holders, queue...), nil
}

// position reads a record, see lua/lib.lua. One of another version is taken for an exclusive claim of which nothing else is
// known.
func position(name, record string, now int64) driver.Position {
	f := strings.SplitN(record, " ", 9)
	if len(f) < 9 || f[0] != "1" {
		return driver.Position{Name: name, Weight: driver.All, Limit: driver.All}
	}
	// One that waits has a small number in the place of its end, and none in that of its token.
	return driver.Position{
		Name: name, ID: f[1], Left: time.Duration(max(0, number(f[2])-now)) * time.Microsecond,
		Weight: int32(number(f[3])), Limit: int32(number(f[4])), Since: time.UnixMicro(number(f[6])), Token: number(f[7]), Owner: f[8],
	}
}

func number(text string) int64 {
	x, _ := strconv.ParseInt(text, 10, 64)
	return x
}

// Names implements [driver.Inspector].
func (n *Node) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var found sync.Map // the names: each may have a lock and a queue
		scan := func(ctx context.Context, server goredis.Cmdable) error {
			all := server.Scan(ctx, 0, n.keys.pattern(prefix), 1000).Iterator()
			for all.Next(ctx) {
				if name, ok := n.keys.name(all.Val()); ok && strings.HasPrefix(name, prefix) {
					found.Store(name, nil)
				}
			}
			return all.Err()
		}
		err := n.aside(ctx, func() error {
			if n.cluster == nil {
				return scan(ctx, n.client)
			}
			return n.cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error { return scan(ctx, c) })
		})
		if err != nil {
			yield("", explain(err))
			return
		}
		found.Range(func(name, _ any) bool { return yield(name.(string), nil) })
	}
}
