package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
)

// ballot is what one node has said. It is what redsync takes for a pool, and for a connection. redsync is asked
// when the nodes have answered: which answers make a majority, and whether it came in time, is its word.
// What its own requests could not do, to heed a context, to recognise a lock as one's own, to undo what a
// majority did not follow, is done by others.
type ballot struct{ yes bool }

var errForeign = errors.New("redsync asked for what is not offered")

// majority has redsync count the nodes that have written the same token. It returns an error if they are too few.
func (b *backend) majority(ctx context.Context, c *claim, yes []int) error {
	pools := make([]rsredis.Pool, len(b.nodes))
	for i := range pools {
		pools[i] = &ballot{slices.Contains(yes, i)}
	}
	err := redsync.New(pools...).NewMutex(c.Name, redsync.WithExpiry(c.TTL), redsync.WithValue(c.ID),
		redsync.WithGenValueFunc(func() (string, error) { return c.ID, nil }),
		redsync.WithFailFast(true), redsync.WithTimeoutFactor(1)).TryLockContext(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", err, b.votes(c).failure())
	}
	return nil
}

// Get implements [rsredis.Pool].
func (b *ballot) Get(context.Context) (rsredis.Conn, error) { return (*conn)(b), nil }

// conn is a ballot as redsync's connection.
type conn ballot

// SetNX is redsync asking for the lock.
func (c *conn) SetNX(string, string, time.Duration) (bool, error) { return c.yes, nil }

// Eval is redsync undoing, after too few votes, what SetNX did, which is done elsewhere.
func (c *conn) Eval(*rsredis.Script, ...any) (any, error) { return int64(0), nil }

// Close has nothing to close.
func (c *conn) Close() error { return nil }

// The rest of the interface is not used by the calls that are made here.

func (c *conn) Get(string) (string, error)         { return "", errForeign }
func (c *conn) Set(string, string) (bool, error)   { return false, errForeign }
func (c *conn) ScriptLoad(*rsredis.Script) error   { return errForeign }
func (c *conn) PTTL(string) (time.Duration, error) { return 0, errForeign }
