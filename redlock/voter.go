package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
)

// voter is one node in one round. It is what redsync takes for a pool and for a
// connection.
type voter struct {
	r        *round
	req      request
	answered bool
	rep      reply
}

var (
	_ rsredis.Pool = (*voter)(nil)
	_ rsredis.Conn = (*conn)(nil)

	errForeign   = errors.New("redlock: redsync asked for what this adapter does not offer")
	errUndecided = errors.New("redlock: decided without this node")
)

// mutex gives redsync the round's voters as its nodes. It is asked when the nodes
// have answered: redsync's goroutines, one for each node and question, have then
// nothing to wait for, and none is left behind with a node that does not answer.
func (r *round) mutex() *redsync.Mutex {
	pools := make([]rsredis.Pool, len(r.voters))
	for i := range r.voters {
		pools[i] = &r.voters[i]
	}
	value := r.c.value
	return redsync.New(pools...).NewMutex(r.c.lock,
		redsync.WithExpiry(r.c.TTL),
		redsync.WithValue(value),
		redsync.WithGenValueFunc(func() (string, error) { return value, nil }),
		failFast, anyTime)
}

var (
	failFast = redsync.WithFailFast(true)
	// The bound of each node is kept by the round; redsync's works through the
	// ctx, which go-redis does not heed by default.
	anyTime = redsync.WithTimeoutFactor(1)
)

// Get is redsync asking for a connection.
func (v *voter) Get(context.Context) (rsredis.Conn, error) { return (*conn)(v), nil }

// conn is a voter as redsync's connection.
type conn voter

// SetNX is redsync asking for the lock.
func (c *conn) SetNX(string, string, time.Duration) (bool, error) {
	rep := (*voter)(c).answer()
	return rep.yes, rep.err
}

// Eval is redsync extending the lock; or, when it has counted too few votes, undoing its
// SetNX, which is done elsewhere and more thoroughly.
func (c *conn) Eval(*rsredis.Script, ...any) (any, error) {
	if c.r.isBid() {
		return int64(0), nil
	}
	rep := (*voter)(c).answer()
	if c.r.counts(rep) {
		return int64(1), nil
	}
	return int64(0), rep.err
}

// answer is what the node has said. The question was put by the round: redsync's
// goroutines may start when it has long been decided without them, and a bid that
// goes out then would come after the release that undoes it.
func (v *voter) answer() reply {
	r := v.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if !v.answered {
		return reply{err: errUndecided}
	}
	return v.rep
}

// Close has nothing to close.
func (c *conn) Close() error { return nil }

// The rest of the interface is not used by the calls that are made here.

func (c *conn) Get(string) (string, error)         { return "", errForeign }
func (c *conn) Set(string, string) (bool, error)   { return false, errForeign }
func (c *conn) ScriptLoad(*rsredis.Script) error   { return errForeign }
func (c *conn) PTTL(string) (time.Duration, error) { return 0, errForeign }
