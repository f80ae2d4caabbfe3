package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
)

// round is one question to all nodes, put and counted by a redsync.Mutex that is
// made for it and used by nobody else. For the Mutex, round is its nodes: each
// voter is a pool and a connection of it.
type round struct {
	b      *backend
	c      *claim
	script *script
	args   []any
	gives  *giving // instead of args: a release, which has to get through some time
	first  nodeSet // with gives: the nodes that are told at once
	judge  func(v any) reply
	heard  func(i int, rep reply) // told of every answer; may be nil

	voters []voter
	began  time.Time
	timer  *time.Timer
	unhook func() bool

	mu     sync.Mutex
	yes    int
	usable int  // answers that are not errors
	open   int  // voters without an answer
	over   bool // nobody waits any longer
}

// reply is what a node said.
type reply struct {
	yes    bool
	low    bool   // yes, but the token was not written
	clock  int64  // with low: the last token of the bucket
	now    int64  // with low: the node's time; 0 if it did not say
	holder string // who has it instead; with a release: who has it now
	left   time.Duration
	handed bool // a release: it was ours and has gone to holder
	fenced bool // with handed: the successor's token is written
	err    error
	sent   bool // with err: the node may have carried it out; without: perhaps twice
}

// notSent is the reply of a node that was not asked after all.
var notSent = reply{err: errNotSent}

// voter is one node in one round. It is what redsync takes for a pool and for a
// connection.
type voter struct {
	r   *round
	req request

	wait     sync.WaitGroup // until there is an answer or the round is over
	answered bool
	freed    bool // wait is done
	rep      reply
}

var (
	_ rsredis.Pool = (*voter)(nil)
	_ rsredis.Conn = (*conn)(nil)

	errForeign   = errors.New("redlock: redsync asked for what this adapter does not offer")
	errUnasked   = errors.New("not asked: it had not answered before")
	errUndecided = errors.New("redlock: decided without this node")
)

// newRound puts a question to all nodes at once. The bound and ctx both end the
// waiting for the answers.
func (b *backend) newRound(ctx context.Context, c *claim, r *round) *round {
	r.b, r.c = b, c
	r.voters = make([]voter, len(b.nodes))
	r.open = len(r.voters)
	var until time.Time
	if r.gives != nil {
		until = time.Now().Add(c.TTL)
	}
	for i := range r.voters {
		v := &r.voters[i]
		v.r = r
		v.req.job, v.req.c, v.req.i, v.req.until = r, c, i, until
		v.wait.Add(1)
	}
	r.began = time.Now()
	r.mu.Lock()
	r.timer = time.AfterFunc(b.bound, r.expire)
	if ctx.Done() != nil {
		r.unhook = context.AfterFunc(ctx, r.expire)
	}
	r.mu.Unlock()
	some := allNodes(len(b.nodes))
	if r.script != bidScript {
		some = c.traces() // the others cannot know anything of it
	}
	if r.gives != nil {
		r.first = b.firstToTell(c, some)
	}
	for i, n := range b.nodes {
		if r.gives == nil {
			c.asking(i)
		}
		if !some.has(i) {
			r.answered(i, nil, n.fail(errUnasked), false)
			continue
		}
		if r.gives == nil || r.first.has(i) {
			n.submit(&r.voters[i].req)
		} else {
			n.submitLater(&r.voters[i].req)
		}
	}
	return r
}

// firstToTell are the nodes that are told of a release at once: a majority, of
// those that answer if there are enough, and for one lock the same for everybody.
// The others have a millisecond's time.
func (b *backend) firstToTell(c *claim, some nodeSet) (first nodeSet) {
	var weak nodeSet
	for i, n := range b.nodes {
		if n.weak() {
			weak = weak.with(i)
		}
	}
	for _, from := range []nodeSet{some &^ weak, some} {
		for k := range b.nodes {
			if i := (c.bucket + k) % len(b.nodes); first.len() < b.quorum && from.has(i) {
				first = first.with(i)
			}
		}
	}
	return first
}

// hurry tells the others too.
func (r *round) hurry() {
	for i, n := range r.b.nodes {
		if !r.first.has(i) {
			n.kick()
		}
	}
}

// mutex gives redsync the round's voters as its nodes.
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

// command and answered make round a job.
func (r *round) command(i int) (*script, []any) {
	if r.gives == nil {
		return r.script, r.args
	}
	return r.script, r.gives.call(i)
}

func (r *round) answered(i int, v any, err error, sent bool) {
	rep := reply{err: err, sent: sent}
	if err == nil {
		rep = r.judge(v)
		rep.sent = sent
	}
	if r.gives == nil {
		r.c.asked(i, rep)
	}
	r.mu.Lock()
	r.settle(i, rep)
	r.mu.Unlock()
	if r.gives != nil && !rep.yes {
		r.hurry()
	}
	if r.heard != nil {
		r.heard(i, rep)
	}
}

// settle notes the answer of node i. It wants mu.
func (r *round) settle(i int, rep reply) {
	v := &r.voters[i]
	v.answered, v.rep = true, rep
	v.free()
	r.open--
	if r.counts(rep) {
		r.yes++
	}
	if r.open == 0 {
		r.unwatch()
	}
	if rep.err == nil {
		r.usable++
	}
	// It cannot be won any more. Whether that is because somebody else has the lock
	// is known when a majority has said something.
	switch {
	case r.gives != nil || r.usable < r.b.quorum:
	case r.yes+r.open < r.b.quorum:
		r.finish()
	case r.usable == r.b.quorum && r.yes < r.b.quorum && rep.err == nil:
		// The rest may take longer, but not out of all proportion.
		r.timer.Reset(max(4*time.Since(r.began), 20*time.Millisecond))
	}
}

// counts: a vote for us. A lock whose token could not be written is held, but not
// confirmed.
func (r *round) counts(rep reply) bool {
	return rep.yes && (!rep.low || r.script == bidScript)
}

func (v *voter) free() {
	if !v.freed {
		v.freed = true
		v.wait.Done()
	}
}

func (r *round) unwatch() {
	r.timer.Stop()
	if r.unhook != nil {
		r.unhook()
	}
}

// finish lets go of everybody who waits. It wants mu.
func (r *round) finish() {
	r.over = true
	for i := range r.voters {
		r.voters[i].free()
	}
}

// expire ends the waiting. What has not gone out yet does not go out any more,
// unless it undoes something.
func (r *round) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unwatch()
	r.finish()
	for i := range r.voters {
		if v := &r.voters[i]; !v.answered && r.gives == nil && v.req.cancel() {
			r.c.asked(i, notSent)
			r.settle(i, reply{err: r.b.nodes[i].fail(errNotSent)})
		}
	}
}

// detach lets the questions that are still open be answered although the caller
// has what it wanted and will end its ctx.
func (r *round) detach() {
	r.mu.Lock()
	if r.unhook != nil {
		r.unhook()
	}
	r.mu.Unlock()
}

// replies is what has been answered so far. A node that has not answered is
// counted as one that may have got the request.
func (r *round) replies() []reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]reply, len(r.voters))
	for i := range r.voters {
		if v := &r.voters[i]; v.answered {
			all[i] = v.rep
		} else {
			all[i] = reply{err: r.b.nodes[i].slow, sent: true}
		}
	}
	return all
}

// Get is redsync asking for a connection.
func (v *voter) Get(context.Context) (rsredis.Conn, error) { return (*conn)(v), nil }

// conn is a voter as redsync's connection.
type conn voter

// SetNX is redsync asking for the lock.
func (c *conn) SetNX(string, string, time.Duration) (bool, error) {
	rep := (*voter)(c).answer()
	return rep.yes, rep.err
}

// Eval is redsync extending or releasing the lock; or, when it has counted too
// few votes, undoing its SetNX, which is done elsewhere and more thoroughly.
func (c *conn) Eval(*rsredis.Script, ...any) (any, error) {
	if c.r.script == bidScript {
		return int64(0), nil
	}
	rep := (*voter)(c).answer()
	if c.r.counts(rep) {
		return int64(1), nil
	}
	return int64(0), rep.err
}

// answer waits for what the node says. The question was put by newRound: redsync's
// goroutines may start when it has long been decided without them, and a bid that
// goes out then would come after the release that undoes it.
func (v *voter) answer() reply {
	r := v.r
	v.wait.Wait()
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
