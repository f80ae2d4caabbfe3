package redisnode

import (
	"cmp"
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

// parse reads a record, see lua/lib.lua, and what it says of the holder's end. One of another version is taken for
// an exclusive claim of which nothing else is known.
func parse(name, record string) (p driver.Position, ends int64) {
	p = driver.Position{Name: name, Weight: driver.All, Limit: driver.All}
	f := strings.SplitN(record, " ", 9)
	if len(f) < 9 || f[0] != "1" {
		return p, 0
	}
	p.ID, p.Weight, p.Limit, p.Since, p.Owner = f[1], int32(number(f[3])), int32(number(f[4])), time.UnixMicro(number(f[6])), f[8]
	p.Token = number(f[7]) // of a holder; of one that waits it is no number
	return p, number(f[2])
}

func number(text string) int64 {
	x, _ := strconv.ParseInt(text, 10, 64)
	return x
}

// Look returns the claims of name as the node knows them: holders, in the order of their tokens, and then
// waiters.
func (n *Node) Look(ctx context.Context, name string) ([]driver.Position, error) {
	now, holders, waiters, err := n.look(ctx, name)
	var all []driver.Position
	for _, record := range holders {
		p, ends := parse(name, record.(string))
		p.Held, p.Left = true, time.Duration(max(0, ends-now))*time.Microsecond
		if p.ID == "" || p.Left > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b driver.Position) int { return cmp.Compare(a.Token, b.Token) })
	for _, record := range waiters {
		if p, _ := parse(name, record.(string)); p.ID != "" {
			all = append(all, p)
		}
	}
	return all, err
}

// look returns the server's time and the records of the holders and of those who wait.
func (n *Node) look(ctx context.Context, name string) (now int64, holders, waiters []any, err error) {
	c := n.Claim(&driver.Claim{Name: name})
	answer, _, err := n.run(ctx, n.scripts.look, []string{c.lock, c.queue})
	if err != nil {
		return 0, nil, nil, err
	}
	if list, _ := answer.Slice(); len(list) == 3 {
		now, _ = list[0].(int64)
		holders, _ = list[1].([]any)
		waiters, _ = list[2].([]any)
	}
	return now, holders, waiters, nil
}

// Names returns the names that begin with prefix and are held or waited for.
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
		_, err := n.aside(ctx, func() (*goredis.Cmd, error) {
			if n.cluster == nil {
				return nil, scan(ctx, n.client)
			}
			return nil, n.cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error { return scan(ctx, c) })
		})
		if err != nil {
			yield("", explain(err))
			return
		}
		found.Range(func(name, _ any) bool { return yield(name.(string), nil) })
	}
}
