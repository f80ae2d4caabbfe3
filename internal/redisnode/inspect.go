package redisnode

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
)

// Look returns the claims of name as the node knows them: holders, in the order of their tokens, and
// then waiters.
func (n *Node) Look(ctx context.Context, name string) ([]driver.Position, error) {
	all, _, err := n.look(ctx, name)
	return all, err
}

// look returns also the entries of the queue, by ID.
func (n *Node) look(ctx context.Context, name string) ([]driver.Position, map[string]string, error) {
	c := n.Claim(&driver.Claim{Name: name})
	v, _, err := n.run(ctx, n.scripts.look, c.lock, []any{2, c.lock, c.queue})
	if err != nil {
		return nil, nil, err
	}
	list, _ := v.([]any)
	if len(list) != 5 {
		return nil, nil, fmt.Errorf("the server answered %v to the script", v)
	}
	now, _ := list[0].(int64)
	left, _ := list[1].(int64)
	var all []driver.Position
	if text := list[2].(string); text != "" {
		p := driver.Position{Name: name, Held: true, Weight: driver.All, Limit: driver.All, Left: max(0, time.Duration(left)*time.Millisecond)}
		if f := split(text, 8); f != nil {
			p.ID, p.Weight, p.Limit, p.Since, p.Token, p.Owner = f[1], weight(f[2]), weight(f[3]), moment(f[5]), number(f[6]), f[7]
		}
		all = append(all, p)
	}
	for pair := range slices.Chunk(list[3].([]any), 2) {
		f := split(pair[1].(string), 8)
		if f == nil || number(f[1]) <= now {
			continue
		}
		all = append(all, driver.Position{
			Name: name, ID: pair[0].(string), Held: true, Weight: weight(f[2]), Limit: weight(f[3]), Since: moment(f[5]),
			Token: number(f[6]), Owner: f[7], Left: time.Duration(number(f[1])-now) * time.Microsecond,
		})
	}
	slices.SortFunc(all, func(a, b driver.Position) int { return cmp.Compare(a.Token, b.Token) })
	entries := make(map[string]string)
	for _, entry := range list[4].([]any) {
		if f := split(entry.(string), 9); f != nil {
			entries[f[1]] = entry.(string)
			all = append(all, driver.Position{Name: name, ID: f[1], Weight: weight(f[2]), Limit: weight(f[3]), Since: moment(f[6]), Owner: f[8]})
		}
	}
	return all, entries, nil
}

// split returns the words of a record, which has n; nil if it is none of this version. See lua/lib.lua.
func split(record string, n int) []string {
	f := strings.SplitN(record, " ", n)
	if len(f) < n || f[0] != "1" {
		return nil
	}
	return f
}

func number(text string) int64 {
	x, _ := strconv.ParseInt(text, 10, 64)
	return x
}

func weight(text string) int32 { return int32(min(number(text), int64(driver.All))) }

func moment(text string) time.Time { return time.UnixMicro(number(text)) }

// Evict removes the claim with this ID from the holders or the queue of name and tells it, so that
// a waiter queues anew. It returns driver.ErrGone if there is none.
func (n *Node) Evict(ctx context.Context, name, id string) error {
	_, entries, err := n.look(ctx, name)
	if err != nil {
		return err
	}
	c := n.Claim(&driver.Claim{ID: id, Name: name})
	answer, lost, err := n.end(ctx, c, 0, 0, entries[id])
	switch {
	case err != nil:
		return err
	case answer == 0 && !lost:
		return driver.ErrGone
	case answer == 2:
		channel := split(entries[id], 9)[7]
		_, err = n.aside(ctx, func() (any, error) {
			if n.cluster != nil {
				return nil, n.client.SPublish(ctx, channel, "look "+id).Err()
			}
			return nil, n.client.Publish(ctx, channel, "look "+id).Err()
		})
		return err
	}
	return nil
}

// Names returns the names that begin with prefix and are held or waited for.
func (n *Node) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var mu sync.Mutex
		found := make(map[string]bool)
		scan := func(ctx context.Context, server goredis.Cmdable) error {
			for _, kind := range []string{"lock", "queue"} {
				keys := server.Scan(ctx, 0, n.keys.pattern(kind, prefix), 1000).Iterator()
				for keys.Next(ctx) {
					if name, ok := n.keys.name(keys.Val()); ok && strings.HasPrefix(name, prefix) {
						mu.Lock()
						found[name] = true
						mu.Unlock()
					}
				}
				if err := keys.Err(); err != nil {
					return err
				}
			}
			return nil
		}
		_, err := n.aside(ctx, func() (any, error) {
			if n.cluster != nil {
				return nil, n.cluster.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error { return scan(ctx, c) })
			}
			return nil, scan(ctx, n.client)
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
