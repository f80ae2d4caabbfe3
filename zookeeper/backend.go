package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// backend is the driver.
type backend struct {
	session *session
	clock   driver.Clock
	base    string // path of the queues
	acl     []zk.ACL
	check   time.Duration
	old     atomic.Bool // the server cannot take back a watch: it is older than 3.5
	plain   atomic.Bool // the server has no containers

	mu      sync.Mutex
	waiting map[string]*waiter // by the queue
}

// Traits says how often to look after what is held: the nodes of locks that are
// held for longer than that are watched, and the session has to be heard of.
func (d *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "zookeeper", Fair: true, Fenced: true,
		Prompt: true, LeaseBySession: true, Check: d.check,
	}
}

func placeOf(c *driver.Claim) *place {
	p, _ := c.State.(*place)
	return p
}

// Renew asks nothing for the single lock. One request sets the watches of all
// that have none yet, and one, now and then, asks the leader.
func (d *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	w, id := d.session.now()
	var alive []*driver.Claim
	for _, c := range claims {
		p := placeOf(c)
		switch err := p.lost(); {
		case err != nil:
			report(c, 0, fmt.Errorf("%w: %w", driver.ErrGone, err))
			continue
		case p.session != id:
			report(c, 0, fmt.Errorf("%w: %w", driver.ErrGone, zk.ErrSessionExpired))
			continue
		}
		alive = append(alive, c)
	}
	err := error(zk.ErrNoServer)
	if w != nil {
		err = d.confirm(ctx, w, alive)
	}
	until := d.session.contact.until()
	for _, c := range alive {
		switch gone := placeOf(c).lost(); {
		case gone != nil:
			report(c, 0, fmt.Errorf("%w: %w", driver.ErrGone, gone))
		case err != nil:
			report(c, 0, err)
		default:
			report(c, until, nil)
		}
	}
}

// watchBytes bounds the size of a request for watches: a server takes no request
// of more than 1 MB, and a stricter one can be set.
const watchBytes = 96 << 10

// confirm watches the nodes of holders that are not watched yet, and asks the leader if
// it has not been asked for a while.
func (d *backend) confirm(ctx context.Context, w *wire, holders []*driver.Claim) error {
	var calls []*call
	var x watching
	size := 0
	for _, c := range holders {
		o := placeOf(c).watchSelf(w)
		if o == nil {
			continue
		}
		x.nodes = append(x.nodes, o)
		if size += len(o.path) + 4; size > watchBytes {
			calls = append(calls, w.watch(x))
			x, size = watching{}, 0
		}
	}
	if len(x.nodes) > 0 {
		calls = append(calls, w.watch(x))
	}
	if d.session.contact.stale(d.clock.Now()) {
		calls = append(calls, syncCall(d.base))
	}
	if len(calls) == 0 {
		return nil
	}
	return w.ask(ctx, calls...)
}

// Release removes the holder's node.
func (d *backend) Release(ctx context.Context, c *driver.Claim) error {
	p := placeOf(c)
	if p == nil || p.node == "" {
		return driver.ErrGone
	}
	d.session.drop(p)
	p.finish()
	if err := p.lost(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrGone, err)
	}
	w, err := d.session.usable(ctx, true)
	if err != nil {
		return err
	}
	if w.session != p.session {
		return fmt.Errorf("%w: %w", driver.ErrGone, zk.ErrSessionExpired)
	}
	del := deleteCall(p.node)
	if p.waited && !d.old.Load() {
		del = passCall(p.node, d.acl)
	}
	again := p.deleting // and then by the same caller: releases follow one another
	p.deleting = true
	calls := []*call{del}
	if d.plain.Load() || number(p.node) >= worn {
		calls = append(calls, deleteCall(p.queue)) // refused while anybody is in it
	}
	if err := w.ask(ctx, calls...); err != nil {
		return tried("delete", p.node, err)
	}
	err = del.removed()
	switch {
	case errors.Is(err, zk.ErrNoNode) && again:
		err = nil
	case errors.Is(err, zk.ErrNoNode):
		return fmt.Errorf("%w: %w", driver.ErrGone, errDeleted)
	case err != nil && del.op == opMulti:
		// Who may delete may not be allowed to create. The next in line will look.
		p.waited = false
		return tried("pass on", p.node, err)
	case err != nil:
		return tried("delete", p.node, err)
	}
	p.deleting = false
	if p.repeated {
		return d.purge(ctx, w, p)
	}
	return err
}

// Abandon removes whatever there is of the claim.
func (d *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	p := placeOf(c)
	if p == nil {
		return nil
	}
	d.session.drop(p)
	p.finish()
	if p.node == "" && !p.doubt && !p.repeated && !p.made {
		return nil // nothing was made, and nothing will be
	}
	w, err := d.session.usable(ctx, true)
	if err != nil {
		return err
	}
	if p.node == "" || p.doubt || p.repeated || d.plain.Load() {
		return d.purge(ctx, w, p)
	}
	return d.remove(ctx, w, p.node)
}

// remove sees to it that a node is no more.
func (d *backend) remove(ctx context.Context, w *wire, node string) error {
	del := deleteCall(node)
	if err := w.ask(ctx, del); err != nil {
		return tried("delete", node, err)
	}
	if del.err != nil && !errors.Is(del.err, zk.ErrNoNode) {
		return tried("delete", node, del.err)
	}
	return nil
}

// Close ends the session, and with it every node that is left.
func (d *backend) Close(ctx context.Context) error { return d.session.close(ctx) }
