package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
)

// majority has redsync count the nodes that have written the same token. It returns an error if they are too few.
//
// redsync is asked when the nodes have answered: which answers make a majority, and whether it came in time, is its
// word. What its own requests could not do, to heed a context, to recognise a lock as one's own, to undo what a
// majority did not follow, is done by others.
func (b *backend) majority(ctx context.Context, c *claim, yes []int) error {
	pools := make([]rsredis.Pool, len(b.nodes))
	for i := range pools {
		pools[i] = ballot(slices.Contains(yes, i))
	}
	id := func() (string, error) { return c.ID, nil }
	mutex := redsync.New(pools...).NewMutex(c.Name,
		redsync.WithExpiry(c.TTL), redsync.WithGenValueFunc(id), redsync.WithFailFast(true))
	if err := mutex.TryLockContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", err, b.votes(c).failure())
	}
	return nil
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
