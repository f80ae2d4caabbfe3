package zookeeper

import (
	"context"
	"runtime"

	"github.com/seed80cd6120/locker/driver"
)

// A waiter is the one of this Locker that waits in a queue: its Acquire runs, and it does
// not hold the name yet.
type waiter struct {
	place *place
	join  *call    // by which its node was asked for
	queue []string // as it was then, nil if it has to be looked at

	// handed is closed when the release that makes it the first has returned; nil as long as
	// there is none. The backend's mu guards it.
	handed chan struct{}
}

// waits notes who waits in a queue.
func (d *backend) waits(n *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[n.place.queue] = n
}

// waitsNoMore is called when Acquire returns.
func (d *backend) waitsNoMore(p *place) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.waiting[p.queue]; n != nil && n.place == p {
		delete(d.waiting, p.queue)
	}
}

// behind returns the waiter directly behind the holder p. Everybody who joins a queue writes
// to it, so that its version shows whether somebody came between the two. A waiter that has
// no answer yet does not know; then the server has to compare, which is only asked of it
// if nobody else is to be expected, since a refusal takes time.
func (d *backend) behind(p *place) (n *waiter, version int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = d.waiting[p.queue]
	if n == nil {
		return nil, 0
	}
	version = -1 // any
	select {
	case <-n.join.done:
		if made := n.join.created(); made.err != nil || made.stat.version != p.version+1 {
			return nil, 0
		}
	default:
		if !p.alone {
			return nil, 0
		}
		version = p.version + 1
	}
	n.handed = make(chan struct{})
	return n, version
}

// takeOver waits until the release has returned that has made p the first: by then the next
// of this Locker stands behind p, and the one after it can be taken along when p is released.
func (d *backend) takeOver(ctx context.Context, p *place) {
	var handed chan struct{}
	d.mu.Lock()
	if n := d.waiting[p.queue]; n != nil && n.place == p {
		handed = n.handed
	}
	d.mu.Unlock()
	if handed == nil {
		return
	}
	select {
	case <-handed:
	case <-ctx.Done():
	}
}

// Relay is Release. If the one directly behind c is of this Locker, next's node is made in
// the same transaction.
func (d *backend) Relay(ctx context.Context, c, next *driver.Claim, joined func()) error {
	p := placeOf(c)
	w, _ := d.session.now()
	if p == nil || w == nil || w.session != p.session || p.deleting || p.repeated || number(p.node) >= worn {
		return d.Release(ctx, c)
	}
	n, version := d.behind(p)
	if n == nil {
		// Its turn came when p was granted: after a very short holding it is about to ask.
		runtime.Gosched()
		n, version = d.behind(p)
	}
	if n == nil {
		return d.Release(ctx, c)
	}
	defer close(n.handed)
	d.session.drop(p)
	p.finish()
	q := newPlace(next, d.base)
	relay := d.relayCall(p, q, version)
	if err := w.ask(ctx, relay); err != nil {
		p.deleting, q.asked, q.doubt = true, true, true
		next.State = q
		joined()
		return tried("pass on", p.node, err)
	}
	made := relay.created()
	if made.err != nil { // and nothing was done
		return d.Release(ctx, c)
	}
	q.stands(w, made)
	q.brought = &waiter{place: q, join: relay, queue: inRow(p.node, n.join.created().path, q.node)}
	next.State = q
	joined()
	return nil
}

// inRow returns the queue in which the node last joined when first left, with second between
// them. It does so only if their numbers, which count all nodes that were ever made there,
// leave no room for anybody else.
func inRow(first, second, last string) []string {
	if second == "" || number(second) != number(first)+1 || number(last) != number(second)+1 {
		return nil
	}
	return []string{childOf(second), childOf(last)}
}
