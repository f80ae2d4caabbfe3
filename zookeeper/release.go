package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// held waits for a connection; it returns driver.ErrGone if the claim does not hold its name.
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
	again := d.finish(st)
	err := d.session.delete(st.node)
	if errors.Is(err, zk.ErrNoNode) {
		if err = nil; !again {
			err = gone(errDeleted)
		}
	}
	return d.left(st, err)
}

// finish records that the owner gives the claim up; it returns whether an earlier request to remove its
// node may have been carried out.
func (d *backend) finish(st *claimState) (again bool) {
	d.session.drop(st)
	st.mu.Lock()
	st.over = true // what is heard of it is no news any more
	st.mu.Unlock()
	again = st.ending
	st.ending = true
	return again
}

// left removes what else there is of a claim whose node is gone, unless err says that it is not.
func (d *backend) left(st *claimState, err error) error {
	if err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	for _, node := range st.lighter {
		if err := d.remove(node); err != nil {
			return err
		}
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
	again := d.finish(st)
	_, err := d.session.multi("replace", st.node,
		&zk.DeleteRequest{Path: st.node, Version: -1},
		&zk.CreateRequest{Path: st.lingers, Data: fmt.Appendf(nil, "%d %s", token(st.czxid), c.Owner), Acl: d.acl})
	if errors.Is(err, zk.ErrNoNode) {
		var stat *zk.Stat
		if again {
			stat, err = d.session.stat(st.lingers)
		}
		if stat == nil && (err == nil || !again) {
			err = gone(errDeleted)
		}
	}
	if err == nil {
		go d.removeLater(st.lingers, dur)
	}
	return d.left(st, err)
}

// removeLater removes a node that has lingered, unless the Locker is closed before.
func (d *backend) removeLater(node string, after time.Duration) {
	life := d.session.life
	select {
	case <-time.After(after):
	case <-life.Done():
	}
	for pause := 100 * time.Millisecond; life.Err() == nil; pause = min(2*pause, time.Minute) {
		if _, err := d.session.usable(life, true); err == nil && d.remove(node) == nil {
			return
		}
		sleep(life, pause)
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
	st.lighter = append(st.lighter, node)
	_, err := d.session.multi("lighten", st.node, d.rewrite(st), &zk.CreateRequest{Path: node, Acl: d.acl, Flags: zk.FlagEphemeral})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return gone(errDeleted)
	case err != nil && !errors.Is(err, zk.ErrNodeExists):
		return err
	}
	st.weight = min(st.weight, weight)
	return nil
}

// Abandon removes whatever there is of the claim.
func (d *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	st := stateOf(c)
	if st == nil || st.node == "" && !st.doubt && !st.made {
		return nil // nothing was made, and nothing will be
	}
	d.finish(st)
	if _, err := d.session.usable(ctx, true); err != nil {
		return err
	}
	nodes := []string{st.node}
	if st.node == "" || len(st.lighter) > 0 || st.lingers != "" {
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
	return d.tidy(st)
}

// Close ends the session, and with it every node that is left but those that linger.
func (d *backend) Close(ctx context.Context) error { return d.session.close(ctx) }
