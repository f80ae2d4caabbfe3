package redlock

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/internal/redisnode"
)

// patience is how many node timeouts a request has: it may be this machine that is slow.
const patience = 3

var (
	errUnheard = errors.New("no answer yet")
	errSilent  = errors.New("does not answer")
)

// node is one of the servers.
type node struct {
	*redisnode.Node
	name     string
	answered atomic.Bool // it has said what time it is there
	silent   atomic.Bool // the last request had no answer in time
	probing  atomic.Bool // a request finds out whether it answers again
}

// request makes a request to the node. A silent node gets one at a time, so that they do not pile up, unless too
// many are silent to leave it out.
func (b *backend) request(n *node, f func(ctx context.Context) error) error {
	if n.silent.Load() && b.silentNodes() <= len(b.nodes)-b.quorum {
		if n.probing.Swap(true) {
			return errSilent
		}
		defer n.probing.Store(false)
	}
	return b.send(n, f)
}

func (b *backend) silentNodes() (count int) {
	for _, n := range b.nodes {
		if n.silent.Load() {
			count++
		}
	}
	return count
}

// send makes a request to the node whether it is silent or not, and notes whether it is.
func (b *backend) send(n *node, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(b.life, patience*b.bound)
	defer cancel()
	err := f(ctx)
	switch silent := redisnode.TimedOut(err); {
	case n.silent.Swap(silent) == silent:
	case silent:
		b.report(slog.LevelWarn, "a node does not answer", n, err)
	default:
		b.report(slog.LevelInfo, "a node answers again", n, nil)
	}
	return err
}

// report logs what happened at a node; it returns at once, also when the log handler hangs.
func (b *backend) report(level slog.Level, what string, n *node, err error) {
	attrs := []any{"node", n.name}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	go b.log.Log(context.Background(), level, "locker: redlock: "+what, attrs...)
}

// ask asks all nodes at once, by calling question with the index of each. It returns what they have said by the time
// that decided says so, all have answered, or ctx has ended; late says that the node timeout is over, or only a minority
// of nodes that was silent before has yet to answer. The others are still asked, in the background.
func (b *backend) ask(ctx context.Context, question func(i int) error, decided func(yes, no int, late bool) bool) votes {
	type answer struct {
		node int
		vote error
	}
	answers, silent := make(chan answer, len(b.nodes)), make([]bool, len(b.nodes))
	talking := 0 // the nodes that were not silent, and have yet to answer
	for i, n := range b.nodes {
		if silent[i] = n.silent.Load(); !silent[i] {
			talking++
		}
	}
	if talking < b.quorum { // it may be this machine that was away
		clear(silent)
		talking = len(silent)
	}
	for i := range b.nodes {
		b.working.Go(func() { answers <- answer{i, question(i)} })
	}
	timeout := time.NewTimer(b.bound)
	defer timeout.Stop()
	said, late := b.unheard(), false
	for heard := 0; heard < len(said); {
		late = late || talking == 0
		if yes, no := said.count(); decided(yes, no, late) {
			break
		}
		select {
		case a := <-answers:
			said[a.node] = a.vote
			heard++
			if !silent[a.node] {
				talking--
			}
		case <-timeout.C:
			late = true
		case <-ctx.Done():
			return said
		}
	}
	return said
}

// time returns about what time it is on the nodes, in microseconds: the median of those that have answered, and of what time it
// is here if their number is even and others have not, so that one clock that is wrong does not count where two are right.
func (b *backend) time() int64 {
	all, here := []int64{}, int64(0)
	for _, n := range b.nodes {
		if n.answered.Load() {
			all = append(all, n.Time())
		} else {
			here = n.Time()
		}
	}
	if len(all)%2 == 0 && here != 0 {
		all = append(all, here)
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
