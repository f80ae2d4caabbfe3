package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// held returns nil if c may hold its name in the session that there is now, and waits for that.
func (d *backend) held(ctx context.Context, st *claimState) error {
	if st == nil || st.node == "" {
		return driver.ErrGone
	}
	if err := st.lost(); err != nil {
		return gone(err)
	}
	id, err := d.session.usable(ctx, true)
	if err == nil && id != st.session {
		err = gone(zk.ErrSessionExpired)
	}
	return err
}

// Release removes the holder's node.
func (d *backend) Release(ctx context.Context, c *driver.Claim) error {
	st := stateOf(c)
	if err := d.held(ctx, st); err != nil {
		return err
	}
	return d.leave(st, func() error {
		return d.session.write(func() error { return d.session.conn.Delete(st.node, -1) })
	}, nil)
}

// leave ends a holding by delete, and removes what else there is of it. If the node is not there it
// returns nil when an earlier request has removed it, of which done may know more.
func (d *backend) leave(st *claimState, remove func() error, done func() error) error {
	d.session.drop(st)
	st.finish()
	again := st.ending
	st.ending = true
	err := remove()
	switch {
	case errors.Is(err, zk.ErrNoNode) && again && done != nil:
		err = done()
	case errors.Is(err, zk.ErrNoNode) && again:
		err = nil
	case errors.Is(err, zk.ErrNoNode):
		err = gone(errDeleted)
	}
	if err != nil && !errors.Is(err, driver.ErrGone) {
		return failed("delete", st.node, err)
	}
	for _, node := range st.lighter {
		if err := d.remove(node); err != nil {
			return err
		}
	}
	if err := d.tidy(st); err != nil {
		return err
	}
	return err
}

// Linger puts in the holder's place a node that does not end with the session, and says for how long
// it is to stay. Whoever finds its time over removes it: the next who asks for the name, those
// who wait behind it, and the one who made it, if that lives.
func (d *backend) Linger(ctx context.Context, c *driver.Claim, dur time.Duration) error {
	st := stateOf(c)
	if err := d.held(ctx, st); err != nil {
		return err
	}
	if st.lingers == "" {
		e := parseEntry(path.Base(st.node))
		e.weight = st.weight
		st.lingers = st.queue + "/" + lingerNode(e, dur)
	}
	data := fmt.Appendf(nil, "%d %s", token(st.czxid), c.Owner)
	err := d.leave(st, func() error {
		return d.session.write(func() error {
			_, err := d.session.conn.Multi(&zk.DeleteRequest{Path: st.node, Version: -1},
				&zk.CreateRequest{Path: st.lingers, Data: data, Acl: d.acl})
			return err
		})
	}, func() error { return d.exists(st.lingers) })
	if err == nil {
		go d.removeLater(st.lingers, dur)
	}
	return err
}

// exists returns driver.ErrGone if a node is not there.
func (d *backend) exists(node string) error {
	var there bool
	err := d.session.read(func() (err error) {
		there, _, err = d.session.conn.Exists(node)
		return err
	})
	if err == nil && !there {
		return gone(errDeleted)
	}
	return err
}

// removeLater removes a node that has lingered, unless the Locker is closed before.
func (d *backend) removeLater(node string, after time.Duration) {
	due := time.NewTimer(after)
	defer due.Stop()
	select {
	case <-due.C:
	case <-d.session.life.Done():
		return
	}
	for pause := 100 * time.Millisecond; d.session.life.Err() == nil; pause = min(2*pause, time.Minute) {
		_, err := d.session.usable(d.session.life, true)
		if err == nil {
			err = d.remove(node)
		}
		if err == nil {
			return
		}
		_ = sleep(d.session.life, pause)
	}
}

// Lighten makes a node that says that the claim is lighter: weights stand in names, so that one listing
// tells all, and a name cannot be changed without losing the place. In the same transaction it writes to the
// claim's node, as those who wait for that watch nothing else.
func (d *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	st := stateOf(c)
	if err := d.held(ctx, st); err != nil {
		return err
	}
	node := st.queue + "/" + lighterNode(c.ID, weight)
	if !slices.Contains(st.lighter, node) {
		st.lighter = append(st.lighter, node)
	}
	err := d.session.write(func() error {
		_, err := d.session.conn.Multi(
			&zk.SetDataRequest{Path: st.node, Data: []byte(c.Owner), Version: -1},
			&zk.CreateRequest{Path: node, Acl: d.acl, Flags: zk.FlagEphemeral})
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return gone(errDeleted)
	case err != nil && !errors.Is(err, zk.ErrNodeExists):
		return failed("create", node, err)
	}
	st.weight = min(st.weight, weight)
	return nil
}

// Abandon removes whatever there is of the claim.
func (d *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	st := stateOf(c)
	if st == nil || !st.asked || st.node == "" && !st.doubt && !st.made {
		return nil // nothing was made, and nothing will be
	}
	d.session.drop(st)
	st.finish()
	if _, err := d.session.usable(ctx, true); err != nil {
		return err
	}
	nodes := []string{st.node}
	if st.node == "" || len(st.lighter) > 0 || st.lingers != "" {
		if err := d.session.sync(); err != nil {
			return failed("sync", st.queue, err)
		}
		var err error
		if nodes, err = d.nodesOf(st); err != nil {
			return err
		}
	}
	for _, node := range nodes {
		if err := d.remove(node); err != nil {
			return err
		}
	}
	if st.made { // servers remove no container that was never used
		return d.removeEmpty(st.queue)
	}
	return d.tidy(st)
}

// Close ends the session, and with it every node that is left but those that linger.
func (d *backend) Close(ctx context.Context) error { return d.session.close(ctx) }
