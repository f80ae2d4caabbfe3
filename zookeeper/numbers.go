package zookeeper

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// A node gives its children 2^31 numbers. The documentation has them go on below
// zero, which no server does for long: it keeps the greatest number that there was, and
// so gives 2147483647 again and again, with a few below zero while several requests are under
// way. Nobody can be told by such a number to be before another. A queue that came
// that far is given up: it is removed when it is empty, and the next begins at 0.

// worn is the number from which on a queue is removed at the first moment in which nobody
// is in it. Long before that servers remove containers by themselves, but only those
// that are empty at the moment at which they look.
const worn = 1 << 30

// usedUp says whether a number is of no use.
func usedUp(seq int32) bool { return seq < 0 || seq == math.MaxInt32 }

// number is that of a node's path.
func number(path string) int32 {
	_, seq, _ := parseNode(childOf(path))
	return seq
}

// renumber gives up a node whose number is used up. Nobody who has such a node makes
// another before the queue was removed, so that it is empty soon after those ahead with
// good numbers have had their turns. It asks again and again: it happens once in 2^31
// acquisitions that never left the queue empty for long, and servers tell nobody when
// something is empty.
func (d *backend) renumber(ctx context.Context, w *wire, p *place) error {
	own := deleteCall(p.node)
	p.mislay()
	for {
		queue := deleteCall(p.queue) // refused while anybody is in it
		calls := []*call{own, queue}
		if !p.doubt {
			calls = calls[1:]
		}
		if err := w.ask(ctx, calls...); err != nil {
			return tried("renumber", p.queue, err)
		}
		if p.doubt && own.err != nil && !errors.Is(own.err, zk.ErrNoNode) {
			return tried("renumber", p.queue, own.err)
		}
		p.doubt = false
		switch {
		case queue.err == nil || errors.Is(queue.err, zk.ErrNoNode):
			return errAgain
		case !errors.Is(queue.err, zk.ErrNotEmpty):
			return tried("renumber", p.queue, queue.err)
		case !p.claim.Wait:
			return driver.ErrTaken
		}
		pause := time.NewTimer(50*time.Millisecond + rand.N(100*time.Millisecond))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}
