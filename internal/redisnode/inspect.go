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

// look returns the server's time and the records of the holders and of those who wait.
func (n *Node) look(ctx context.Context, c *Claim) (now int64, holders, waiters []any, err error) {
	v, _, err := n.run(ctx, n.scripts.look, c.lock, []any{2, c.lock, c.queue})
	if list, _ := v.([]any); len(list) == 3 {
		now, _ = list[0].(int64)
		holders, _ = list[1].([]any)
		waiters, _ = list[2].([]any)
	}
	return now, holders, waiters, err
}

// Look returns the claims of name as the node knows them: holders, in the order of their tokens, and then
// waiters.
func (n *Node) Look(ctx context.Context, name string) ([]driver.Position, error) {
	now, holders, waiters, err := n.look(ctx, n.Claim(&driver.Claim{Name: name}))
	var all []driver.Position
	for _, text := range holders {
		p, ends := parse(name, text.(string))
		p.Held, p.Left = true, time.Duration(max(0, ends-now))*time.Microsecond
		if p.ID == "" || p.Left > 0 {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b driver.Position) int { return cmp.Compare(a.Token, b.Token) })
	for _, text := range waiters {
		if p, _ := parse(name, text.(string)); p.ID != "" {
			all = append(all, p)
		}
	}
	return all, err
}

// Evict removes the claim with this ID from the holders or the queue of name; a waiter is told and queues anew.
// It returns driver.ErrGone if there is none.
func (n *Node) Evict(ctx context.Context, name, id string) error {
	c := n.Claim(&driver.Claim{ID: id, Name: name})
	_, _, waiters, err := n.look(ctx, c)
	if err != nil {
		return err
	}
	entry := c.entry()
	for _, text := range waiters {
		if p, _ := parse(name, text.(string)); p.ID == id {
			entry = text.(string)
		}
	}
	v, lost, err := n.release(ctx, c, entry, 0, 0)
	if err == nil && v == int64(0) && !lost {
		err = driver.ErrGone
	}
	return err
}

// Names returns the names that begin with prefix and are held or waited for.
func (n *Node) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var mu sync.Mutex
		found := make(map[string]bool)
		scan := func(ctx context.Context, server goredis.Cmdable) error {
			all := server.Scan(ctx, 0, n.keys.pattern(prefix), 1000).Iterator()
			for all.Next(ctx) {
				if name, ok := n.keys.name(all.Val()); ok && strings.HasPrefix(name, prefix) {
					mu.Lock()
					found[name] = true
					mu.Unlock()
				}
			}
			return all.Err()
		}
		_, err := n.aside(ctx, func() (any, error) {
			if n.cluster == nil {
				return nil, scan(ctx, n.client)
			}
			return nil, n.cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error { return scan(ctx, c) })
		})
		if err != nil {
			yield("", explain(err))
			return
		}
		for name := range found {
			if !yield(name, nil) {
				return
			}
		}
	}
}
