package zookeeper

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// makeQueue makes the node under which the queue is: a container, which servers remove when it has
// been empty for a while.
func (d *backend) makeQueue(st *claimState) error {
	if err := d.makeBase(st.claim.ID); err != nil {
		return err
	}
	st.made = true
	sent := d.clock.Now()
	_, err := d.session.conn.CreateContainer(st.queue, nil, zk.FlagContainer, d.acl)
	err = d.session.answered(sent, true, "create", st.queue, err)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// makeBase makes the nodes above the queues. It first sees to it that the ACL lets those who are
// here use what is made with it, as otherwise nobody else could either.
func (d *backend) makeBase(probe string) error {
	var ops []any
	for i := 1; i <= len(d.base); i++ {
		if i < len(d.base) && d.base[i] != '/' {
			continue
		}
		stat, err := d.session.stat(d.base[:i])
		if err != nil {
			return err
		}
		if stat == nil {
			ops = append(ops, &zk.CreateRequest{Path: d.base[:i], Acl: d.acl})
		}
	}
	if d.proven.Load() && len(ops) == 0 {
		return nil
	}
	// The last of these cannot be done, so that none is.
	probe = d.base + "/" + probe
	_, err := d.session.multi("try the permissions in", d.base, append(ops[:len(ops):len(ops)],
		&zk.CreateRequest{Path: probe, Acl: d.acl},
		&zk.CheckVersionRequest{Path: probe, Version: -1}, // may be read
		&zk.SetDataRequest{Path: probe, Version: -1},
		&zk.CreateRequest{Path: probe + "/x", Acl: d.acl},
		&zk.DeleteRequest{Path: probe + "/x", Version: -1},
		&zk.CheckVersionRequest{Path: probe, Version: 1 << 20})...)
	if errors.Is(err, zk.ErrBadVersion) {
		d.proven.Store(true)
		if len(ops) == 0 {
			return nil
		}
		_, err = d.session.multi("create", d.base, ops...)
	}
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return errAgain // others make the base or remove it
	}
	return err
}

// nodesOf returns the paths of all nodes in the queue that carry the claim's ID.
func (d *backend) nodesOf(st *claimState) (nodes []string, err error) {
	if err := d.session.sync(); err != nil {
		return nil, err
	}
	names, _, _, err := d.session.children(st.queue, false)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, st.claim.ID+"-") {
			nodes = append(nodes, st.queue+"/"+name)
		}
	}
	return nodes, nil
}

// remove deletes a node, unless it is gone already.
func (d *backend) remove(path string) error {
	if err := d.session.delete(path); !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// tidy removes the queue that a claim made in vain: servers remove no container that was never used.
func (d *backend) tidy(st *claimState) error {
	if !st.made {
		return nil
	}
	if err := d.remove(st.queue); !errors.Is(err, zk.ErrNotEmpty) {
		return err
	}
	return nil
}

// renumber gives up a node whose number is used up. Nobody who has such a node makes another before
// the queue was removed, so that it is empty soon after those ahead with good numbers have had their
// turns. It asks again and again: it happens once in 2^31 acquisitions that never left the queue empty
// for long, and servers tell nobody when something is empty.
func (d *backend) renumber(ctx context.Context, st *claimState) error {
	if err := d.remove(st.node); err != nil {
		return err
	}
	st.forget()
	for ctx.Err() == nil {
		err := d.remove(st.queue)
		switch {
		case err == nil:
			return errAgain
		case !errors.Is(err, zk.ErrNotEmpty):
			return err
		case !st.claim.Wait:
			return driver.ErrTaken
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return context.Cause(ctx)
}
