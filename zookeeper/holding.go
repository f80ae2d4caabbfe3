package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// Renew asks once for each claim, to watch its node, and the leader now and then for the session.
func (d *backend) Renew(ctx context.Context, all []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	_, err := d.usable(ctx, true)
	if err == nil && d.isStale(1./3) {
		_, err = d.conn.Sync("/")
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			until, err := d.confirm(c.State.(*claimState), err)
			mu.Lock()
			defer mu.Unlock()
			report(c, until, err)
		})
	}
	wg.Wait()
}

// confirm sees to it that the claim's node is there and watched, unless err says that no server can be asked, and
// returns until when it is certain to stay.
func (d *backend) confirm(st *claimState, err error) (driver.Instant, error) {
	if err == nil && st.mu.TryLock() { // otherwise it is being replaced, or another Renew asks
		if !st.doubt {
			err = d.watchOwn(st)
		}
		st.mu.Unlock()
	}
	switch id, until := d.state(); {
	case id != st.session:
		return 0, errExpired
	case errors.Is(err, zk.ErrNoNode):
		return 0, errDeleted
	default:
		return until, err
	}
}

// Release removes the holder's node.
func (d *backend) Release(ctx context.Context, c *driver.Claim) error {
	st, _, err := d.held(ctx, c)
	if err == nil {
		err = d.delete(st.node)
	}
	return err
}

// held returns the state and the entry of a claim that, as far as is known, holds its name, otherwise driver.ErrGone.
func (d *backend) held(ctx context.Context, c *driver.Claim) (*claimState, entry, error) {
	st := c.State.(*claimState)
	id, err := d.usable(ctx, true)
	if err == nil && st.doubt {
		err = d.find(st)
	}
	switch {
	case err != nil:
	case id != st.session:
		err = errExpired
	case st.node == "":
		err = errDeleted
	}
	return st, parseEntry(path.Base(st.node)), err
}

// Linger puts in the holder's place a node that does not end with the session, and says for how long
// it is to stay. Whoever finds its time over removes it: those who ask for the name, and the one who made it, if it
// lives then and reaches a server.
func (d *backend) Linger(ctx context.Context, c *driver.Claim, dur time.Duration) error {
	st, e, err := d.held(ctx, c)
	if err == nil {
		e.linger = dur
		err = d.replace(st, e, 0)
	}
	if err == nil {
		node := st.node
		time.AfterFunc(dur, func() { _ = d.remove(node) })
	}
	return err
}

// Lighten puts in the holder's place a node of a smaller weight: weights stand in names, so that one listing tells all.
func (d *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	st, e, err := d.held(ctx, c)
	if err == nil && weight < e.weight { // otherwise it was done before
		e.weight = weight
		err = d.replace(st, e, zk.FlagEphemeral)
	}
	return err
}

// replace puts another node in the place of the claim's.
func (d *backend) replace(st *claimState, e entry, flags int32) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	e.czxid = st.czxid
	node := fmt.Sprintf("%s/%s%010d", st.queue, e.name(), e.seq)
	_, err := d.conn.Multi(
		&zk.DeleteRequest{Path: st.node, Version: -1},
		&zk.CreateRequest{Path: node, Data: []byte(st.claim.Owner), Acl: d.acl, Flags: flags})
	st.doubt = !isSettled(err)
	if err == nil {
		st.node, st.own = node, nil
	}
	if errors.Is(err, zk.ErrNoNode) {
		return errDeleted
	}
	return failed("replace", st.node, err)
}

// Abandon removes whatever there is of the claim.
func (d *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	st := c.State.(*claimState)
	if st.node == "" && !st.doubt {
		return nil // nothing was made, and nothing will be
	}
	if _, err := d.usable(ctx, true); err != nil {
		return err
	}
	doubt := st.doubt
	err := d.clear(st)
	if err == nil && doubt { // servers remove no queue that was never used
		err = d.remove(st.queue)
	}
	if errors.Is(err, zk.ErrNotEmpty) {
		err = nil
	}
	return err
}

// clear removes the claim's node, if there is one.
func (d *backend) clear(st *claimState) (err error) {
	if st.doubt {
		err = d.find(st)
	}
	if err == nil && st.node != "" {
		err = d.remove(st.node)
	}
	return err
}

// find looks for the claim's node by its ID.
//
// No request of an earlier connection can be carried out after the sync: a server closes the
// session's earlier connection when it takes a new one, a leader refuses what comes from the
// server that the session has left, and what was taken before is ahead of the sync.
func (d *backend) find(st *claimState) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	q, err := d.listNow(st.queue)
	if err != nil {
		return err
	}
	st.node, st.own, st.doubt = "", nil, false
	for _, e := range q {
		if strings.HasPrefix(e.node, st.claim.ID+"-") {
			st.node = st.queue + "/" + e.node
		}
	}
	return nil
}

// delete deletes a claim's node; it returns driver.ErrGone if that is gone.
func (d *backend) delete(path string) error {
	err := d.conn.Delete(path, -1)
	if errors.Is(err, zk.ErrNoNode) {
		return errDeleted
	}
	return failed("delete", path, err)
}

// remove deletes a node, unless it is gone already.
func (d *backend) remove(path string) error {
	if err := d.delete(path); !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}
