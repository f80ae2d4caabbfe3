package redlock

import (
	"context"
	"sync"
	"time"
)

// round is one question to all nodes. A majority of them is asked at once, the others
// a little later, or as soon as it shows that the majority will not do. So what
// is decided quickly costs a majority of the nodes only, and who comes second for
// a lock meets who came first on the first node rather than splitting the votes.
type round struct {
	b      *backend
	c      *claim
	script *script
	args   []any
	plain  bool    // a bid: args are a plain command, for the nodes that are asked first
	gives  *giving // instead of args: a release, which has to get through some time
	queue  bool    // a bid that queues where the lock is taken
	rest   nodeSet // if not empty: a bid at these nodes only, and in no hurry
	judge  func(v any) reply
	heard  func(i int, rep reply) // told of every answer; may be nil

	voters []voter
	first  nodeSet // the nodes that are asked at once
	began  time.Time
	bound  *time.Timer   // for who waits
	done   chan struct{} // closed when nobody has to wait any longer

	mu      sync.Mutex
	yes, no int
	open    int // voters without an answer
	hurried bool
	over    bool // done is closed
}

// reply is what a node said.
type reply struct {
	yes    bool
	low    bool   // yes, but the token was not written
	clock  int64  // with low: the last token of the bucket
	now    int64  // with low: the node's time; 0 if it did not say
	holder string // who has it instead
	left   time.Duration
	err    error
	sent   bool // with err: the node may have carried it out
}

// notSent is the reply of a node that was not asked after all.
var notSent = reply{err: errNotSent}

// put puts a question to the nodes.
func (b *backend) put(c *claim, r *round) *round {
	r.b, r.c = b, c
	r.voters = make([]voter, len(b.nodes))
	r.open = len(r.voters)
	r.done = make(chan struct{})
	r.began = time.Now()
	var until time.Time
	if r.gives != nil {
		until = r.began.Add(c.TTL)
	}
	some := allNodes(len(b.nodes))
	switch {
	case r.rest != 0:
		some = r.rest
		c.bids(r)
	case r.isBid():
		c.bids(r)
		r.first = b.firstToAsk(c, some)
	default:
		some = c.traces() // the others cannot know anything of it
		r.first = b.firstToAsk(c, some)
	}
	r.bound = time.NewTimer(b.bound)
	for i, n := range b.nodes {
		v := &r.voters[i]
		v.r = r
		v.req.job, v.req.c, v.req.i, v.req.until = r, c, i, until
		if r.gives == nil {
			c.asking(i)
		}
		switch {
		case !some.has(i):
			r.answered(i, nil, n.unasked, false)
		case r.first.has(i):
			n.submit(&v.req)
		default:
			n.submitLater(&v.req)
		}
	}
	r.mu.Lock()
	hurry := r.hurried // when there was not yet anybody to hurry
	r.mu.Unlock()
	if hurry {
		r.hurry()
	}
	return r
}

func (r *round) isBid() bool { return r.script == bidScript }

// firstToAsk is a majority of the nodes given, of those that answer if there are
// enough, and for one lock the same for everybody.
func (b *backend) firstToAsk(c *claim, some nodeSet) (first nodeSet) {
	var weak nodeSet
	for i, n := range b.nodes {
		if n.slow() {
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

// hurry asks the others now.
func (r *round) hurry() {
	for i, n := range r.b.nodes {
		if !r.first.has(i) {
			n.hurry(&r.voters[i].req)
		}
	}
}

// wait returns when it is decided, or when the bound or ctx is over, with whether enough
// said yes. What has not gone out by then does not go out any more, unless it
// undoes something.
func (r *round) wait(ctx context.Context) bool {
	defer r.bound.Stop()
	for patient := false; ; {
		select {
		case <-r.done:
			return r.won()
		case <-r.bound.C:
			if !patient && !r.decidable() {
				// Some more time for those who are missing: it may be this machine that is slow.
				patient = true
				r.bound.Reset((lenience - 1) * r.b.bound)
				continue
			}
		case <-ctx.Done():
		}
		if r.gives == nil {
			r.withdraw()
		}
		return r.won()
	}
}

func (r *round) won() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.yes >= r.b.quorum
}

// decidable: a majority has answered.
func (r *round) decidable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.yes+r.no >= r.b.quorum
}

// command and answered make round a job.
func (r *round) command(i int) (*script, []any) {
	switch {
	case r.gives != nil:
		return r.script, r.gives.call(i)
	case r.plain && r.first.has(i):
		return nil, r.args
	case r.plain: // one that lingers, or hurries because the name is not as free as expected
		return r.script, r.c.bidFor("", r.queue)
	}
	return r.script, r.args
}

func (r *round) answered(i int, v any, err error, sent bool) {
	rep := reply{err: err, sent: sent}
	if err == nil {
		rep = r.judge(v)
	}
	if r.gives == nil {
		r.c.asked(i, rep, r.queue)
	} else {
		r.gives.answered(i)
	}
	if r.heard != nil {
		r.heard(i, rep)
	}
	r.mu.Lock()
	r.settle(i, rep)
	hurry := !r.hurried && r.first.has(i) && r.troubled(rep)
	r.hurried = r.hurried || hurry
	r.mu.Unlock()
	if hurry {
		r.hurry()
	}
}

// troubled: after this answer of one of the first it will not do to have asked only
// those; nor is it certain that another has won. It wants mu.
func (r *round) troubled(rep reply) bool {
	return rep.err != nil || r.no > 0 && (r.yes > 0 || !r.isBid())
}

// settle notes the answer of node i. It wants mu.
func (r *round) settle(i int, rep reply) {
	v := &r.voters[i]
	v.answered, v.rep = true, rep
	r.open--
	switch {
	case r.counts(rep):
		r.yes++
	case rep.err == nil:
		r.no++
	}
	// Whether it cannot be won because somebody else has the lock is known when a
	// majority has said something.
	quorum := r.b.quorum
	usable := r.yes + r.no
	switch {
	case r.open == 0:
		r.finish()
	case r.yes >= quorum, r.gives != nil && r.no >= quorum:
		r.finish()
	case r.gives != nil || usable < quorum:
	case r.yes+r.open < quorum:
		r.finish()
	case usable == quorum && rep.err == nil:
		// The rest may take longer, but not out of all proportion.
		r.bound.Reset(max(4*time.Since(r.began), 20*time.Millisecond))
	}
}

// counts: a vote for us. A lock whose token could not be written is held, but not
// confirmed.
func (r *round) counts(rep reply) bool {
	return rep.yes && (!rep.low || r.isBid())
}

// finish lets go of whoever waits. It wants mu.
func (r *round) finish() {
	if !r.over {
		r.over = true
		close(r.done)
	}
}

// withdraw takes back what has not gone out, of a question that no longer matters.
func (r *round) withdraw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.voters {
		if v := &r.voters[i]; !v.answered && v.req.cancel() {
			r.c.asked(i, notSent, r.queue)
			r.settle(i, reply{err: r.b.nodes[i].unsent})
		}
	}
}

// replies is what has been answered so far. A node that has not answered is
// counted as one that may have got the request.
func (r *round) replies() []reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]reply, len(r.voters))
	for i := range r.voters {
		switch v := &r.voters[i]; {
		case v.answered:
			all[i] = v.rep
		case v.req.state.Load() == queued && !r.first.has(i):
			all[i] = reply{err: r.b.nodes[i].unasked}
		default:
			all[i] = reply{err: r.b.nodes[i].late, sent: true}
		}
	}
	return all
}
