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

// ballot is what one node has said. It is what redsync takes for a pool, and for a connection.
// redsync is asked when the nodes have answered: which answers make a majority, and whether it came
// in time, is its word. What its own requests could not do, to heed a context, to recognise a lock
// as one's own, to undo what a majority did not follow, is done by others.
type ballot struct {
	yes    bool
	extend bool // it is the second round
}

var errForeign = errors.New("redsync asked for what is not offered")

// locked has redsync count who has granted the name, and returns an error if that is no majority.
func (b *backend) locked(ctx context.Context, c *claim) error {
	nodes := b.holds(c)
	if len(nodes) < b.quorum || c.mutex(ballots(c, nodes, false)).TryLockContext(ctx) != nil {
		return b.failure(c)
	}
	return nil
}

// extended has redsync count who has written the token, and returns an error if that is no majority.
func (b *backend) extended(ctx context.Context, c *claim, token int64) error {
	var nodes []int
	c.mu.Lock()
	for i, v := range c.votes {
		if v.held && v.token == token {
			nodes = append(nodes, i)
		}
	}
	c.mu.Unlock()
	if ok, err := c.mutex(ballots(c, nodes, true)).ExtendContext(ctx); !ok {
		return fmt.Errorf("no majority for a token: %w", err)
	}
	return nil
}

// ballots are those of a claim that these nodes voted for.
func ballots(c *claim, yes []int, extend bool) []ballot {
	all := make([]ballot, len(c.votes))
	for i := range all {
		all[i] = ballot{yes: slices.Contains(yes, i), extend: extend}
	}
	return all
}

// mutex returns a redsync.Mutex over the ballots.
func (c *claim) mutex(ballots []ballot) *redsync.Mutex {
	pools := make([]rsredis.Pool, len(ballots))
	for i := range ballots {
		pools[i] = &ballots[i]
	}
	return redsync.New(pools...).NewMutex(c.Name,
		redsync.WithExpiry(c.TTL), redsync.WithValue(c.ID),
		redsync.WithGenValueFunc(func() (string, error) { return c.ID, nil }),
		redsync.WithFailFast(true), redsync.WithTimeoutFactor(1))
}

// Get implements [rsredis.Pool].
func (b *ballot) Get(context.Context) (rsredis.Conn, error) { return (*conn)(b), nil }

// conn is a ballot as redsync's connection.
type conn ballot

// SetNX is redsync asking for the lock.
func (c *conn) SetNX(string, string, time.Duration) (bool, error) { return c.yes, nil }

// Eval is redsync extending the lock, or, after too few votes, undoing what SetNX did, which is
// done elsewhere.
func (c *conn) Eval(*rsredis.Script, ...any) (any, error) {
	if c.extend && c.yes {
		return int64(1), nil
	}
	return int64(0), nil
}

// Close has nothing to close.
func (c *conn) Close() error { return nil }

// The rest of the interface is not used by the calls that are made here.

func (c *conn) Get(string) (string, error)         { return "", errForeign }
func (c *conn) Set(string, string) (bool, error)   { return false, errForeign }
func (c *conn) ScriptLoad(*rsredis.Script) error   { return errForeign }
func (c *conn) PTTL(string) (time.Duration, error) { return 0, errForeign }
