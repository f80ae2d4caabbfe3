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

// Renew asks once for each claim, to watch its node, and a majority of the servers when the session's time is short: a
// claim is held for as long as the session lives, unless its node has been deleted.
func (d *backend) Renew(ctx context.Context, all []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	_, err := d.usable(ctx, true)
	if _, until := d.state(); err == nil && until.Sub(d.clock.Now()) < d.ttl*2/3 {
		err = d.confirm()
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			st, err := c.State.(*claimState), err
			if err == nil && st.mu.TryLock() { // otherwise its node is being replaced, or another Renew asks
				if st.news == nil || len(st.news) > 0 {
					st.news, err = d.watchOwn(ctx, st)
				}
				st.mu.Unlock()
			}
			id, until := d.state()
			if id != st.session {
				err = errExpired
			}
			mu.Lock()
			defer mu.Unlock()
			report(c, until, failed(st.queue, err))
		})
	}
	wg.Wait()
}

// confirm has a majority of the servers agree to a transaction that changes nothing. A sync would not do: a leader
// that has been deposed, and does not know it yet, answers that alone.
func (d *backend) confirm() error {
	_, err := d.conn.Multi(&zk.CheckVersionRequest{Path: d.base, Version: -1})
	return err
}

// watchOwn watches the holder's node. It leaves st.node, which others read, as it is.
func (d *backend) watchOwn(ctx context.Context, st *claimState) (news <-chan zk.Event, err error) {
	node, err := d.locate(ctx, st)
	if err == nil && node == "" {
		err = zk.ErrNoNode
	}
	if err == nil {
		_, _, news, err = d.conn.GetW(node)
	}
	return news, err
}

// Release removes the holder's node.
func (d *backend) Release(ctx context.Context, c *driver.Claim) error {
	st, err := d.held(ctx, c)
	if err == nil {
		err = d.conn.Delete(st.node, -1)
	}
	return failed(st.queue, err)
}

// held returns the state of a claim that, as far as is known, holds its name: in its session, or by a node that stays, whose
// making was not answered.
func (d *backend) held(ctx context.Context, c *driver.Claim) (*claimState, error) {
	st := c.State.(*claimState)
	id, err := d.find(ctx, st)
	switch {
	case err == nil && id != st.session && parseEntry(path.Base(st.node)).linger == 0:
		err = errExpired
	case err == nil && st.node == "":
		err = zk.ErrNoNode
	}
	return st, err
}

// Linger puts in the holder's place a node that does not end with the session, and says for how long
// it is to stay. Whoever finds its time over removes it: those who ask for the name, and the one who made it, as soon as
// it reaches a server, if it lives then.
func (d *backend) Linger(ctx context.Context, c *driver.Claim, dur time.Duration) error {
	st, err := d.replace(ctx, c, 0, func(e *entry) { e.linger = dur })
	if err == nil {
		over, cancel := context.WithTimeout(d.life, dur)
		context.AfterFunc(over, func() {
			cancel()
			for pause := new(driver.Backoff); d.life.Err() == nil; pause.Sleep(d.life) {
				if err := d.remove(st.node); err == nil || isRefusal(err) {
					return
				}
			}
		})
	}
	return failed(st.queue, err)
}

// Lighten puts in the holder's place a node of a smaller weight: weights stand in names, so that one listing tells all.
func (d *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	st, err := d.replace(ctx, c, zk.FlagEphemeral, func(e *entry) { e.weight = min(e.weight, weight) })
	return failed(st.queue, err)
}

// replace puts a node of another name in the place of the holder's, unless that was done before.
func (d *backend) replace(ctx context.Context, c *driver.Claim, flags int32, change func(*entry)) (*claimState, error) {
	st, err := d.held(ctx, c)
	if err != nil {
		return st, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	e := parseEntry(path.Base(st.node))
	e.czxid, e.try = st.czxid, false
	change(&e)
	node := fmt.Sprintf("%s/%s%010d", st.queue, e.name(), e.seq)
	if node == st.node {
		return st, nil
	}
	_, err = d.conn.Multi(
		&zk.DeleteRequest{Path: st.node, Version: -1},
		&zk.CreateRequest{Path: node, Data: []byte(c.Owner), Acl: d.acl, Flags: flags})
	switch {
	case err == nil:
		st.node, st.news = node, nil
	case !isRefusal(err):
		st.node, st.news = "", nil // it may be either
	}
	return st, err
}

// Abandon removes whatever there is of the claim.
func (d *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	st := c.State.(*claimState)
	if !st.asked {
		return nil // nothing was made, and nothing will be
	}
	known := st.node != ""
	_, err := d.find(ctx, st)
	if err == nil && st.node != "" {
		err = d.remove(st.node)
	}
	if err == nil && !known { // servers remove no queue that was never used
		if err = d.remove(st.queue); errors.Is(err, zk.ErrNoAuth) {
			err = nil // it was made by somebody who may
		}
	}
	st.asked = err != nil
	return failed(st.queue, err)
}

// find waits for a connection and returns the session's id. It looks for the claim's node, unless its path is known.
func (d *backend) find(ctx context.Context, st *claimState) (id int64, err error) {
	id, err = d.usable(ctx, true)
	if err != nil || st.node != "" {
		return id, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.node, err = d.locate(ctx, st)
	return id, err
}

// locate returns the path of the claim's node, "" if there is none. It looks for it by its ID, unless that is known.
//
// No request of the session's earlier connections can be carried out after the sync: a server closes the
// session's earlier connection when it takes a new one, a leader refuses what comes from the
// server that the session has left, and what was taken before is ahead of the sync. What a session that was given up
// still asked for ends with that session.
func (d *backend) locate(ctx context.Context, st *claimState) (node string, err error) {
	if st.node != "" {
		return st.node, nil
	}
	children, err := d.listNow(ctx, st.queue)
	for _, child := range children {
		if strings.HasPrefix(child, st.claim.ID+"-") {
			node = st.queue + "/" + child
		}
	}
	return node, err
}

// listNow returns the children of path, as they are now and not as they were when a server that lags behind its leader
// last heard of them.
func (d *backend) listNow(ctx context.Context, path string) (children []string, err error) {
	if _, err = d.usable(ctx, false); err == nil {
		_, err = d.conn.Sync(path)
	}
	if err == nil {
		children, _, err = d.list(path, false)
	}
	return children, err
}

// remove deletes a node, unless it is gone already or others are below it.
func (d *backend) remove(path string) error {
	err := d.conn.Delete(path, -1)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}
