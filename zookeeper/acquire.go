package zookeeper

import (
	"context"
	"errors"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// claimState is what is known of a claim at the server; it is the claim's State.
type claimState struct {
	claim   *driver.Claim
	queue   string        // path of the queue
	asked   bool          // a node was asked for and may be there
	node    string        // path of the claim's node, "" if that is not known
	session int64         // in which the node was made
	czxid   int64         // of the transaction that made it
	skew    time.Duration // from our clock to the server's
	hangups int           // how often in a row the server has closed the connection when asked for a node

	mu   sync.Mutex      // held while the holder's node is replaced or its watch is asked for
	news <-chan zk.Event // of the claim's node, nil if it is not watched
}

// Acquire takes a place in the queue and waits until the claim is granted.
func (d *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	st := &claimState{claim: c, queue: d.queuePath(c.Name)}
	c.State = st
	for pause := new(driver.Backoff); ; pause.Sleep(ctx) { // there is no server, or one that says something that may pass
		g, err := d.try(ctx, st)
		again := errors.Is(err, errAgain) || c.Wait && !isRefusal(err)
		if err == nil || ctx.Err() != nil || !again {
			return g, failed(st.queue, err)
		}
	}
}

// try goes on with the claim until it is granted or something comes in between.
func (d *backend) try(ctx context.Context, st *claimState) (g driver.Grant, err error) {
	id, err := d.usable(ctx, st.claim.Wait)
	if err != nil {
		return g, err
	}
	if st.node == "" || st.session != id {
		if err := d.Abandon(ctx, st.claim); err != nil { // what there is of it from before
			return g, err
		}
		if st.hangups >= 5 {
			return g, errTooLong
		}
		alone, err := d.join(st, id)
		if err != nil {
			return g, err
		}
		if alone {
			return d.grant(st)
		}
	}
	return d.queue(ctx, st)
}

// join makes the claim's node. Writing to the queue in the same transaction brings its Stat, which
// tells the node's czxid, the server's time, and whether the node is alone.
func (d *backend) join(st *claimState, id int64) (alone bool, err error) {
	st.asked, st.node = true, ""
	node := st.queue + "/" + entry{id: st.claim.ID, weight: st.claim.Weight, limit: st.claim.Limit, try: !st.claim.Wait}.name()
	ops := []any{
		&zk.CreateRequest{Path: node, Data: []byte(st.claim.Owner), Acl: d.acl, Flags: zk.FlagEphemeralSequential},
		&zk.SetDataRequest{Path: st.queue, Version: -1},
	}
	made, err := d.conn.Multi(ops...)
	for tries := 0; errors.Is(err, zk.ErrNoNode) && tries < 100; tries++ { // somebody may remove it again and again
		if err = d.makeQueue(st); err == nil {
			made, err = d.conn.Multi(ops...)
		}
	}
	if errors.Is(err, zk.ErrConnectionClosed) && len(st.queue) >= 1<<10 {
		st.hangups++
	}
	if err != nil {
		st.asked = !isRefusal(err)
		return false, err
	}
	if now, _ := d.state(); now != id {
		return false, errAgain // no telling in which of the two it was made
	}
	stat := made[1].Stat
	st.node, st.session, st.czxid, st.news = made[0].String, id, stat.Pzxid, nil
	st.hangups, st.skew = 0, time.Duration(stat.Mtime)*time.Millisecond-time.Duration(d.clock.Now())
	return stat.NumChildren == 1 && parseEntry(path.Base(st.node)).placed(), nil
}

// makeQueue makes the node under which the claim queues: a container, which servers remove when it has
// been empty for a while.
func (d *backend) makeQueue(st *claimState) error {
	if err := d.makeBase(d.base + "/" + st.claim.ID); err != nil {
		return err
	}
	_, err := d.conn.CreateContainer(st.queue, nil, zk.FlagContainer, d.acl)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	if errors.Is(err, zk.ErrNoNode) { // somebody has removed the base
		d.based.Store(false)
		return errAgain
	}
	return err
}

// makeBase makes the nodes above the queues that are missing, if the ACL lets those who are here use what is made with
// it: otherwise that would stand in everybody's way. It tries that in the same transaction, with a node at probe.
func (d *backend) makeBase(probe string) error {
	if d.based.Load() {
		return nil
	}
	ops := []any{
		&zk.CreateRequest{Path: probe, Acl: d.acl},
		&zk.CheckVersionRequest{Path: probe, Version: -1}, // it may be read
		&zk.SetDataRequest{Path: probe, Version: -1},
		&zk.CreateRequest{Path: probe + "/x", Acl: d.acl},
		&zk.DeleteRequest{Path: probe + "/x", Version: -1},
		&zk.DeleteRequest{Path: probe, Version: -1},
		&zk.CheckVersionRequest{Path: d.base, Version: -1}, // as holders do; see confirm
	}
	for above := d.base; above != "/"; above = path.Dir(above) {
		there, _, err := d.conn.Exists(above)
		if err != nil {
			return err
		}
		if !there {
			ops = append([]any{&zk.CreateRequest{Path: above, Acl: d.acl}}, ops...)
		}
	}
	_, err := d.conn.Multi(ops...)
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return errAgain // others make the base or remove it
	}
	d.based.Store(err == nil)
	return err
}

// A token is the czxid of the claim's node, which has 21 bits for the leader's epoch and 32 for its
// count, and 10 bits for those that the core hands out itself.
const (
	spareBits = 10
	maxCzxid  = 1<<53 - 1
)

// grant makes the claim a holder.
func (d *backend) grant(st *claimState) (g driver.Grant, err error) {
	if st.czxid > maxCzxid {
		return g, errNoToken
	}
	id, until := d.state()
	if until.Sub(d.clock.Now()) < d.ttl*3/8 { // a long wait, during which the leader has not been asked anything
		if err := d.confirm(); err != nil {
			return g, err
		}
		id, until = d.state()
	}
	if id != st.session {
		return g, errAgain
	}
	spare := min(max(st.claim.Spare, 0), 1<<spareBits-1)
	return driver.Grant{Token: st.czxid << spareBits, Spare: int64(spare), Until: until}, nil
}
