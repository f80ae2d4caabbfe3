package zookeeper

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"
)

// errAgain says that the place in the queue was lost and that all is to be done again.
var errAgain = errors.New("zookeeper: place in the queue lost")

// enter sees to it that the claim has its node, and returns the queue as it was at
// some moment after that.
func (d *backend) enter(ctx context.Context, w *wire, p *place) ([]string, error) {
	if p.node != "" && p.session != w.session {
		// It ended with its session, if not yet in the eyes of this server.
		p.mislay()
	}
	if n := p.brought; n != nil {
		p.brought = nil
		d.waits(n)
		if n.queue != nil {
			return n.queue, nil
		}
	}
	if p.node != "" || p.doubt {
		children, err := d.find(ctx, w, p)
		if err != nil || p.node != "" {
			return children, err
		}
	}
	return d.create(ctx, w, p)
}

// look lists the queue; with sync, as it is now and not as it was when a server that
// lags behind its leader last heard of it.
func (d *backend) look(ctx context.Context, w *wire, p *place, sync bool) ([]string, error) {
	list := listCall(p.queue)
	calls := []*call{syncCall(p.queue), list}
	if !sync {
		calls = calls[1:]
	}
	if err := w.ask(ctx, calls...); err != nil {
		return nil, tried("list", p.queue, err)
	}
	if list.err != nil {
		return nil, tried("list", p.queue, list.err)
	}
	return list.children()
}

// find looks for a node of the claim of which it is not certain that it is there.
// When none is, p.node is empty afterwards.
//
// No request of an earlier connection can be carried out after this: a server closes
// the session's earlier connection when it takes a new one, a leader refuses
// what comes from the server that the session has left, and what was taken before
// is ahead of the sync.
func (d *backend) find(ctx context.Context, w *wire, p *place) ([]string, error) {
	children, err := d.look(ctx, w, p, true)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	own := lineUp(children, p.claim.ID).own
	if own == "" {
		p.forget()
		return nil, nil
	}
	node := p.queue + "/" + own
	if node == p.node {
		return children, nil
	}
	p.forget()
	stat := statCall(node)
	if err := w.ask(ctx, stat); err != nil {
		return nil, tried("read", node, err)
	}
	is := stat.reply().stat()
	switch {
	case stat.err == nil && is.owner == w.session:
		p.node, p.session, p.token = node, is.owner, is.czxid
		return children, nil
	case stat.err == nil:
		// Of a session that has ended, so not for long. Nobody has to wait for that.
		if err := w.ask(ctx, deleteCall(node)); err != nil {
			return nil, tried("delete", node, err)
		}
		return nil, errAgain
	case errors.Is(stat.err, zk.ErrNoNode):
		return nil, errAgain
	}
	return nil, tried("read", node, stat.err)
}

// create makes the claim's node, and the queue if there is none: then both are sent
// at once, as the queue may be removed again at any moment while it is empty.
func (d *backend) create(ctx context.Context, w *wire, p *place) (children []string, err error) {
	for missing := false; ; {
		queue, create := d.queueCall(p.queue), d.createCall(p)
		calls := []*call{queue, create}
		if !missing {
			calls = calls[1:]
		}
		p.repeated = p.repeated || p.doubt
		p.asked, p.doubt, p.made = true, true, p.made || missing
		w.begin(calls...)
		d.waits(&waiter{place: p, join: create})
		if err := w.outcome(ctx, create); err != nil {
			return nil, tried("create a node in", p.queue, err)
		}
		made := create.created()
		p.doubt = false
		switch {
		case made.err == nil:
			p.stands(w, made)
			if made.stat.children == 1 {
				return []string{childOf(made.path)}, nil
			}
			return d.look(ctx, w, p, false)
		case !errors.Is(made.err, zk.ErrNoNode):
			return nil, tried("create a node in", p.queue, made.err)
		case missing && errors.Is(queue.err, zk.ErrNoNode):
			if err := d.makeBase(ctx, w); err != nil {
				return nil, err
			}
		case missing && queue.err != nil && !errors.Is(queue.err, zk.ErrNodeExists):
			return nil, tried("create", p.queue, queue.err)
		}
		missing = true
	}
}

// makeBase makes the nodes above the queues.
func (d *backend) makeBase(ctx context.Context, w *wire) error {
	var calls []*call
	var paths []string
	for i := 1; i <= len(d.base); i++ {
		if i == len(d.base) || d.base[i] == '/' {
			paths = append(paths, d.base[:i])
			calls = append(calls, d.baseCall(d.base[:i]))
		}
	}
	if err := w.ask(ctx, calls...); err != nil {
		return tried("create", d.base, err)
	}
	for i, c := range calls {
		// Who may not make what is there already learns that it is there only further
		// down.
		if c.err != nil && !errors.Is(c.err, zk.ErrNodeExists) && !(i+1 < len(calls) && errors.Is(c.err, zk.ErrNoAuth)) {
			return tried("create", paths[i], c.err)
		}
	}
	return nil
}

// purge removes every node of the claim, and the queue if the claim made it for nothing: servers
// do not remove a container that was never used.
func (d *backend) purge(ctx context.Context, w *wire, p *place) error {
	children, err := d.look(ctx, w, p, true)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	var calls []*call
	for _, child := range children {
		if strings.HasPrefix(child, p.claim.ID+mark) {
			calls = append(calls, deleteCall(p.queue+"/"+child))
		}
	}
	nodes := len(calls)
	if p.made && len(children) == 0 || d.plain.Load() {
		calls = append(calls, deleteCall(p.queue)) // refused while anybody is in it
	}
	if len(calls) == 0 {
		return nil
	}
	if err := w.ask(ctx, calls...); err != nil {
		return tried("clear", p.queue, err)
	}
	for _, c := range calls[:nodes] {
		if c.err != nil && !errors.Is(c.err, zk.ErrNoNode) {
			return tried("clear", p.queue, c.err)
		}
	}
	return nil
}
