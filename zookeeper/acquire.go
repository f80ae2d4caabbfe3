package zookeeper

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// fallback is how often a waiter who has heard nothing looks at the queue all the
// same.
const fallback = 2 * time.Minute

// Acquire takes a place in the queue and waits until it is the first.
func (d *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	p := placeOf(c) // if a release has brought it
	if p == nil {
		p = newPlace(c, d.base)
		c.State = p
	}
	defer d.waitsNoMore(p)
	for {
		w, err := d.session.usable(ctx, c.Wait)
		if err != nil {
			return driver.Grant{}, err
		}
		g, err := d.try(ctx, w, p)
		again := errors.Is(err, errAgain) || c.Wait && errors.Is(err, errBroken)
		if !again || ctx.Err() != nil {
			return g, err
		}
	}
}

// try goes on with the claim for as long as one connection lasts.
func (d *backend) try(ctx context.Context, w *wire, p *place) (driver.Grant, error) {
	if !p.claim.Wait && !p.asked {
		if err := d.free(ctx, w, p); err != nil {
			return driver.Grant{}, err
		}
	}
	children, err := d.enter(ctx, w, p)
	for err == nil {
		l := lineUp(children, p.claim.ID)
		switch {
		case l.own == "" || p.node != p.queue+"/"+l.own:
			p.mislay()
			return driver.Grant{}, errAgain
		case usedUp(number(l.own)):
			return driver.Grant{}, d.renumber(ctx, w, p)
		case l.ahead == "":
			p.alone = len(children) == 1
			return d.grant(ctx, w, p)
		case !p.claim.Wait:
			return driver.Grant{}, d.leave(ctx, w, p)
		}
		p.waited = true
		var first bool
		first, err = d.await(ctx, w, p, l)
		switch {
		case err != nil:
		case first:
			return d.grant(ctx, w, p)
		default:
			children, err = d.look(ctx, w, p, false)
		}
	}
	if errors.Is(err, zk.ErrNoNode) { // the queue was deleted with all in it
		p.mislay()
		err = errAgain
	}
	return driver.Grant{}, err
}

// free asks whether the queue is empty, which costs less than to join it in vain.
func (d *backend) free(ctx context.Context, w *wire, p *place) error {
	children, err := d.look(ctx, w, p, true)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err == nil && anyone(children):
		return driver.ErrTaken
	}
	return err
}

// leave gives up a place that was taken in vain.
func (d *backend) leave(ctx context.Context, w *wire, p *place) error {
	p.finish()
	if err := d.remove(ctx, w, p.node); err != nil {
		return err
	}
	return driver.ErrTaken
}

// grant makes the first in the queue the holder.
func (d *backend) grant(ctx context.Context, w *wire, p *place) (driver.Grant, error) {
	if !p.grant() || !d.session.hold(p) {
		p.ungrant()
		p.mislay()
		return driver.Grant{}, errAgain
	}
	if d.session.contact.spent(d.clock.Now()) {
		// A long wait, during which the leader has not been asked anything.
		if err := w.ask(ctx, syncCall(p.queue)); err != nil {
			p.ungrant()
			d.session.drop(p)
			return driver.Grant{}, tried("sync", p.queue, err)
		}
	}
	return driver.Grant{Token: p.token, Until: d.session.contact.until()}, nil
}

// await waits until the node before the claim's is gone. It says first if that
// alone shows that the claim is the first now: either that node was the first, or
// its owner said that it had been the first until it went.
//
// That the claim's own node is still there shows in the order of the news: all
// that concerns the three watches comes in the order in which it happened, from
// when the request is answered that set them. Until then the news may be of an older
// watch of this session.
func (d *backend) await(ctx context.Context, w *wire, p *place, l line) (first bool, err error) {
	var left, passed atomic.Bool
	var x watching
	if self := p.watchSelf(w); self != nil {
		x.nodes = append(x.nodes, self)
	}
	ahead := &watcher{path: p.queue + "/" + l.ahead, tell: func(int32) {
		left.Store(true)
		p.poke()
	}}
	x.nodes = append(x.nodes, ahead)
	var pass *watcher
	if !l.second && !d.old.Load() {
		pass = &watcher{path: passedPath(ahead.path), tell: func(int32) {
			passed.Store(true)
			p.poke()
		}}
		x.marks = append(x.marks, pass)
	}
	set := w.watch(x)
	set.done = make(chan struct{})
	w.post(set)
	defer func() {
		w.unwatch(ahead) // what the server keeps goes with that node
		if w.unwatch(pass) {
			w.post(unwatchCall(pass.path))
		}
	}()

	patience := time.NewTimer(fallback)
	defer patience.Stop()
	for {
		select {
		case <-p.stir:
		case <-w.dead:
			return false, errBroken
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-patience.C:
			return false, nil
		}
		select {
		case <-set.done:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		switch {
		case errors.Is(set.err, errBroken):
			return false, errBroken
		case p.lost() != nil:
			p.mislay()
			return false, errAgain
		case passed.Load():
			return true, nil
		case left.Load():
			d.takeOver(ctx, p)
			return l.second, nil
		}
	}
}
