package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// create makes one persistent node; that it is there already is no error.
func (d *backend) create(path string, flags int32) error {
	err := d.session.write(func() (err error) {
		if flags == zk.FlagContainer {
			_, err = d.session.conn.CreateContainer(path, nil, flags, d.acl)
		} else {
			_, err = d.session.conn.Create(path, nil, flags, d.acl)
		}
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return failed("create", path, err)
	}
	return nil
}

// plainFor is how long a server that has no containers is not asked for one again.
const plainFor = time.Minute

// makeQueue makes the node under which the queue is: a container, which servers remove when it has
// been empty for a while. Servers before 3.5.3 have none; there it is removed with each release.
func (d *backend) makeQueue(st *claimState) error {
	if err := d.makeBase(st.claim); err != nil {
		return err
	}
	st.made = true
	if now := int64(d.clock.Now()); d.plain.Load() == 0 || now > d.plain.Load() {
		err := d.create(st.queue, zk.FlagContainer)
		if err == nil || !isUnimplemented(errors.Unwrap(err)) {
			return err
		}
		d.plain.Store(now + int64(plainFor))
		return errAgain // the server has hung up
	}
	return d.create(st.queue, zk.FlagPersistent)
}

// makeBase makes the nodes above the queues. It first sees to it that the ACL lets those who are
// here use what is made with it, as otherwise nobody else could either.
func (d *backend) makeBase(c *driver.Claim) error {
	var missing []string
	var ops []any
	for i := 1; i <= len(d.base); i++ {
		if i < len(d.base) && d.base[i] != '/' {
			continue
		}
		var there bool
		err := d.session.read(func() (err error) {
			there, _, err = d.session.conn.Exists(d.base[:i])
			return err
		})
		if err != nil {
			return failed("read", d.base[:i], err)
		}
		if !there {
			missing = append(missing, d.base[:i])
			ops = append(ops, &zk.CreateRequest{Path: d.base[:i], Acl: d.acl})
		}
	}
	if d.proven.Load() && len(missing) == 0 {
		return nil
	}
	// The last of these cannot be done, so that none is.
	probe := d.base + "/" + c.ID
	ops = append(ops,
		&zk.CreateRequest{Path: probe, Acl: d.acl},
		&zk.CheckVersionRequest{Path: probe, Version: -1}, // may be read
		&zk.SetDataRequest{Path: probe, Version: -1},
		&zk.CreateRequest{Path: probe + "/x", Acl: d.acl},
		&zk.DeleteRequest{Path: probe + "/x", Version: -1},
		&zk.CheckVersionRequest{Path: probe, Version: 1 << 20})
	err := d.session.write(func() error {
		_, err := d.session.conn.Multi(ops...)
		return err
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return errAgain // others make the base or remove it
	}
	if !errors.Is(err, zk.ErrBadVersion) {
		return failed("try the permissions in", d.base, err)
	}
	for _, path := range missing {
		if err := d.create(path, zk.FlagPersistent); err != nil {
			return err
		}
	}
	d.proven.Store(true)
	return nil
}

// remove deletes a node, unless it is gone already.
func (d *backend) remove(path string) error {
	err := d.session.write(func() error { return d.session.conn.Delete(path, -1) })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return failed("delete", path, err)
	}
	return nil
}

// worn is the number from which on a queue is removed at the first moment in which nobody is in it.
// Servers remove containers by themselves long before, but only those that are empty at the moment at
// which they look.
const worn = 1 << 30

// tidy removes the queue that a claim has left, if nobody else is in it and no server will do so.
func (d *backend) tidy(st *claimState) error {
	if d.plain.Load() == 0 && parseEntry(st.node).seq < worn {
		return nil
	}
	return d.removeEmpty(st.queue)
}

// removeEmpty removes a queue unless somebody is in it.
func (d *backend) removeEmpty(queue string) error {
	if err := d.remove(queue); err != nil && !errors.Is(err, zk.ErrNotEmpty) {
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
	for {
		err := d.remove(st.queue)
		switch {
		case err == nil:
			return errAgain
		case !errors.Is(err, zk.ErrNotEmpty):
			return err
		case !st.claim.Wait:
			return driver.ErrTaken
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}
