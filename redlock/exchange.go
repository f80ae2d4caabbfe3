package redlock

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// job is what requests are made of: one question, put to several nodes.
type job interface {
	// command is called just before the request goes out to node i. Script and
	// arguments may be shared: they are not changed. A nil script means a plain
	// command.
	command(i int) (*script, []any)
	// answered is called once for each request that was not cancelled. With an
	// error, sent says whether the server may have carried it out.
	answered(i int, v any, err error, sent bool)
}

// request is a job at one node.
type request struct {
	job   job
	c     *claim // whose it is; nil for what concerns none or many
	i     int
	until time.Time // if not zero: try again until then
	due   time.Time // it is in no hurry before
	state atomic.Int32
}

const (
	queued int32 = iota
	sent
	cancelled
)

// cancel takes a request back that has not gone out yet, and says whether it
// could. The job hears no more of it.
func (r *request) cancel() bool { return r.state.CompareAndSwap(queued, cancelled) }

// once is a command that go-redis does not repeat by itself. So an answer means
// that it was carried out once, and no copy of it is still on its way.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// run is the goroutine of the node: one that stays, for it needs a deep stack, which
// would have to be grown anew in each new one.
func (n *node) run() {
	defer n.calls.Done()
	var room [8]*request
	for range n.wake {
		for {
			batch := n.take(room[:0])
			if len(batch) == 0 {
				break
			}
			n.exchange(batch)
		}
	}
}

// take moves what is to go out next from the queue to batch.
func (n *node) take(batch []*request) []*request {
	n.mu.Lock()
	defer n.mu.Unlock()
	due := n.due(time.Now())
	i := 0
	for ; i < due && len(batch) < maxBatch; i++ {
		if r := n.queue[i]; r.state.CompareAndSwap(queued, sent) {
			batch = append(batch, r)
		} else {
			n.open.End()
		}
	}
	rest := copy(n.queue, n.queue[i:])
	clear(n.queue[rest:])
	n.queue = n.queue[:rest]
	if len(batch) == 0 {
		n.running = false
		n.since = time.Time{}
		if len(n.queue) > 0 {
			n.later.set(n.queue[0].due)
		}
	} else {
		n.since = time.Now()
	}
	return batch
}

// due is the length of the queue up to the last request that need not linger any longer.
func (n *node) due(now time.Time) int {
	for i := len(n.queue); i > 0; i-- {
		if !n.queue[i-1].due.After(now) {
			return i
		}
	}
	return 0
}

// exchange sends a batch and hands out the answers.
func (n *node) exchange(batch []*request) {
	cmds := make([]once, len(batch))
	scripts := make([]*script, len(batch))
	for k, r := range batch {
		s, args := r.job.command(r.i)
		scripts[k] = s
		cmds[k] = once{goredis.NewCmd(n.ctx, args...)}
	}
	n.do(cmds)
	explain(cmds)
	n.teach(batch, scripts, cmds)
	for k, r := range batch {
		n.deliver(r, cmds[k])
	}
}

func (n *node) do(cmds []once) {
	if len(cmds) == 1 {
		_ = n.client.Process(n.ctx, cmds[0]) // the command has the error
		return
	}
	pipe := n.client.Pipeline()
	for _, c := range cmds {
		_ = pipe.Process(n.ctx, c)
	}
	_, _ = pipe.Exec(n.ctx)
}

// explain names what is behind the errors of a batch that was sent without a password:
// the first has an answer and the others the end of the connection.
func explain(cmds []once) {
	for k := range cmds {
		if err := cmds[k].Err(); err != nil && unauthenticated(err) {
			for _, c := range cmds[k:] {
				c.SetErr(errNoPassword(err))
			}
			return
		}
	}
}

// teach repeats with their source the calls of scripts that the server did not
// know. Of two requests of one claim the later may have been understood (another
// client has just taught the server): the earlier is then not repeated, for it
// must not come after the one that undoes it.
func (n *node) teach(batch []*request, scripts []*script, cmds []once) {
	var at []int
	var again []once
	for k := range batch {
		if err := cmds[k].Err(); err == nil || !goredis.HasErrorPrefix(err, "NOSCRIPT") {
			continue
		}
		if overtaken(batch, cmds, k) {
			continue
		}
		at = append(at, k)
		again = append(again, once{goredis.NewCmd(n.ctx, scripts[k].spelledOut(cmds[k].Args())...)})
	}
	if len(again) == 0 {
		return
	}
	n.do(again)
	for j, k := range at {
		cmds[k] = again[j]
	}
}

// overtaken says whether a later request of the same claim has been carried out.
func overtaken(batch []*request, cmds []once, k int) bool {
	if batch[k].c == nil {
		return false
	}
	for j := k + 1; j < len(batch); j++ {
		if batch[j].c == batch[k].c && cmds[j].Err() == nil {
			return true
		}
	}
	return false
}

func (n *node) deliver(r *request, cmd once) {
	v, err := cmd.Result()
	if errors.Is(err, goredis.Nil) {
		err = nil
	}
	n.mu.Lock()
	if err == nil {
		n.retry = 0
		n.failed = time.Time{}
	} else {
		n.failed = time.Now()
	}
	n.mu.Unlock()
	if err == nil {
		n.answer(r, v, nil, true)
		return
	}
	if !r.until.IsZero() && time.Now().Before(r.until) && !hopeless(err) && n.again(r) {
		return
	}
	n.answer(r, nil, n.fail(err), !refused(err))
}

// again keeps a request that has to get through, to be sent after a while.
func (n *node) again(r *request) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	r.state.Store(queued)
	n.parked = append(n.parked, r)
	n.retry = min(max(2*n.retry, 10*time.Millisecond), time.Second)
	if len(n.parked) == 1 {
		time.AfterFunc(n.retry, n.unpark)
	}
	return true
}

func (n *node) unpark() {
	n.mu.Lock()
	n.queue = append(n.queue, n.parked...)
	n.parked = nil
	n.start()
	n.mu.Unlock()
}

// finish gives up what has failed before and would be tried again.
func (n *node) finish() {
	n.mu.Lock()
	n.closed = true
	parked := n.parked
	n.parked = nil
	n.mu.Unlock()
	for _, r := range parked {
		n.answer(r, nil, n.fail(errClosed), false)
	}
}

// fail says which node it was.
func (n *node) fail(err error) error { return fmt.Errorf("node %s: %w", n.name, err) }

func (n *node) answer(r *request, v any, err error, sent bool) {
	r.job.answered(r.i, v, err, sent)
	n.open.End()
}
