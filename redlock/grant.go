package redlock

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"

	"github.com/seed80cd6120/locker/driver"
)

// lead is by how many microseconds a proposed token is ahead of the nodes' time, to make up for the way of the request.
const lead = 50_000

// nextToken returns a token to propose: above all that the claim has at any node, and ahead of the nodes' time.
func (b *backend) nextToken(c *claim) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	token := b.time() + lead
	for _, p := range c.places {
		token = max(token, p.said.Token+p.said.Spare+1)
	}
	return token
}

// grant returns the grant of a claim if a majority has written the same token for it, not long ago; with the tokens above
// it that are the claim's on all of these nodes. Without fencing any tokens are the same.
//
// redsync decides what a majority is and whether it came in time. Contexts, recognising one's own lock and undoing a failed
// try are handled elsewhere: its own requests do these wrongly.
func (b *backend) grant(ctx context.Context, c *claim) (g driver.Grant, ok bool) {
	g = driver.Grant{Spare: int64(c.Spare), Until: math.MaxInt64}
	pools := make([]rsredis.Pool, len(c.places))
	c.mu.Lock()
	defer c.mu.Unlock()
	tokens := make([]int64, len(c.places)) // 0 is none
	for i, p := range c.places {
		switch age := b.clock.Now().Sub(p.said.Sent); {
		case b.counts(p) != nil || age > c.TTL/2:
		case b.fenced:
			tokens[i] = p.said.Token
		default:
			tokens[i] = 1
		}
	}
	sorted := slices.Sorted(slices.Values(tokens))
	token := sorted[len(sorted)/2] // the one that a majority has written, if there is one
	for i, p := range c.places {
		yes := tokens[i] == token
		if yes {
			g.Spare, g.Until = min(g.Spare, p.said.Spare), min(g.Until, p.said.Sent.Add(c.TTL))
		}
		pools[i] = ballot(yes)
	}
	if token == 0 {
		return g, false
	}
	if b.fenced {
		g.Token = token
	}
	id := func() (string, error) { return c.ID, nil }
	mutex := redsync.New(pools...).NewMutex(c.Name,
		redsync.WithExpiry(c.TTL), redsync.WithGenValueFunc(id), redsync.WithFailFast(true))
	c.granted = mutex.TryLockContext(ctx) == nil
	return g, c.granted
}

// ballot is whether a node has said yes, as redsync's pool of connections to it.
type ballot bool

// Get implements [rsredis.Pool].
func (yes ballot) Get(context.Context) (rsredis.Conn, error) { return conn{yes: bool(yes)}, nil }

// conn is a ballot as redsync's connection: that part of one which it uses here.
type conn struct {
	rsredis.Conn
	yes bool
}

// SetNX is redsync asking for the lock.
func (c conn) SetNX(string, string, time.Duration) (bool, error) { return c.yes, nil }

// Eval is redsync undoing, after too few votes, what SetNX did, which is done elsewhere.
func (c conn) Eval(*rsredis.Script, ...any) (any, error) { return int64(0), nil }

// Close has nothing to close.
func (c conn) Close() error { return nil }
