package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// Acquire takes a place in the queue and waits until the claim is granted.
func (d *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	st := &claimState{claim: c, queue: queuePath(d.base, c.Name), weight: c.Weight}
	c.State = st
	for pause := 5 * time.Millisecond; ; {
		g, err := d.try(ctx, st)
		again := errors.Is(err, errAgain) || c.Wait && !errors.Is(err, driver.ErrRefused)
		switch {
		case err == nil || ctx.Err() != nil || !again:
			return g, err
		case st.tooLong(err):
			return g, failed("ask for", st.queue, errTooLong)
		case !errors.Is(err, errAgain):
			// No server, or one that says something that may pass.
			sleep(ctx, pause)
			pause = min(2*pause, time.Second)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// A server hangs up without a word when it is sent more than its jute.maxbuffer. That is what it
// is taken for when it did so for a name of some length again and again, and never answered.
const (
	longPath   = 1 << 10
	maxHangups = 5
)

// tooLong reports whether the claim's name is too long for the server. Then nothing of it was made.
func (st *claimState) tooLong(err error) bool {
	if !errors.Is(err, zk.ErrConnectionClosed) || st.node != "" {
		st.hangups = 0
		return false
	}
	st.hangups++
	if len(st.queue) < longPath || st.hangups < maxHangups {
		return false
	}
	st.doubt = false
	return true
}

// try goes on with the claim until it is granted or something comes in between.
func (d *backend) try(ctx context.Context, st *claimState) (driver.Grant, error) {
	id, err := d.session.usable(ctx, st.claim.Wait)
	if err != nil {
		return driver.Grant{}, err
	}
	if st.node != "" && st.session != id {
		st.forget() // it ends with its session
	}
	switch {
	case st.doubt:
		err = d.find(st, id)
	case st.node == "" && !st.claim.Wait:
		err = d.free(st)
	}
	if err == nil && st.node == "" {
		var alone bool
		if alone, err = d.join(st, id); alone {
			return d.grant(st)
		}
	}
	if err != nil {
		return driver.Grant{}, err
	}
	return d.queue(ctx, st)
}

// free returns driver.ErrTaken if the claim would have to wait, without writing anything.
func (d *backend) free(st *claimState) error {
	l, err := d.listNow(st.queue)
	if err != nil {
		return err
	}
	total := l.total()
	for _, e := range l.queue {
		if e.linger > 0 && !l.timed {
			total -= int64(e.weight) // its time may be over, which shows when the claim has joined
		}
	}
	if !driver.Fits(total, st.claim.Weight, st.claim.Limit) {
		return driver.ErrTaken
	}
	return nil
}

// find looks for a node of the claim of which it is not certain that it is there.
//
// No request of an earlier connection can be carried out after the sync: a server closes the
// session's earlier connection when it takes a new one, a leader refuses what comes from the
// server that the session has left, and what was taken before is ahead of the sync.
func (d *backend) find(st *claimState, id int64) error {
	nodes, err := d.nodesOf(st)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		stat, err := d.session.stat(node)
		switch {
		case err != nil:
			return err
		case stat != nil && stat.EphemeralOwner == id && st.node == "":
			st.node, st.session, st.czxid = node, id, stat.Czxid
		case stat != nil: // of a session that has ended, so not for long; nobody has to wait for that
			if err := d.remove(node); err != nil {
				return err
			}
		}
	}
	st.doubt = false
	return nil
}

// join makes the claim's node. Writing to the queue in the same transaction brings its Stat, which
// tells the node's czxid, the server's time, and whether the node is alone.
func (d *backend) join(st *claimState, id int64) (alone bool, err error) {
	st.doubt = true
	made, err := d.session.multi("create a node in", st.queue,
		&zk.CreateRequest{Path: st.queue + "/" + claimNode(st.claim), Data: []byte(st.claim.Owner), Acl: d.acl, Flags: zk.FlagEphemeralSequential},
		&zk.SetDataRequest{Path: st.queue, Version: -1})
	st.doubt = !wasAnswered(err)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		if err := d.makeQueue(st); err != nil {
			return false, err
		}
		return d.join(st, id)
	case err != nil:
		return false, err
	}
	if now, _ := d.session.now(); now != id {
		st.doubt = true
		return false, errAgain
	}
	stat := made[1].Stat
	st.node, st.session, st.czxid, st.made = made[0].String, id, stat.Pzxid, false
	d.session.tell(stat.Mtime)
	return stat.NumChildren == 1, nil
}

// queue waits in the queue.
func (d *backend) queue(ctx context.Context, st *claimState) (driver.Grant, error) {
	for whole := false; ; {
		l, err := d.list(st.queue, whole)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return driver.Grant{}, err
		}
		st.known = max(st.known, l.pzxid)
		i := l.index(path.Base(st.node))
		switch {
		case i < 0: // it was deleted, perhaps with the queue and all in it
			st.forget()
			err = errAgain
		case l.queue[i].seq >= lastNumber:
			err = d.renumber(ctx, st)
		case l.queue[i].granted():
			if l.tells(i) {
				err = d.touch(st)
			}
			if err == nil {
				return d.grant(st)
			}
		case !st.claim.Wait:
			if err = d.remove(st.node); err == nil {
				err = driver.ErrTaken
			}
		default:
			blocker := l.blocker(i)
			listed := whole
			whole = blocker < 0
			if listed || !whole {
				err = d.wait(ctx, st, l, blocker)
			}
		}
		if err != nil {
			return driver.Grant{}, err
		}
	}
}

// touch writes to the claim's node, which tells those who watch it to look again.
func (d *backend) touch(st *claimState) error {
	_, err := d.session.multi("write to", st.node, d.rewrite(st))
	return err
}

func (d *backend) rewrite(st *claimState) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: st.node, Data: []byte(st.claim.Owner), Version: -1}
}

// A token is the czxid of the claim's node, which has 21 bits for the leader's epoch and 32 for its
// count, and 10 bits for those that the core hands out itself.
const (
	spareBits = 10
	maxCzxid  = 1<<53 - 1
)

func token(czxid int64) int64 { return czxid << spareBits }

// grant makes the claim a holder.
func (d *backend) grant(st *claimState) (driver.Grant, error) {
	if st.czxid > maxCzxid {
		return driver.Grant{}, fmt.Errorf("%w: the ensemble has had more than %d leaders: no token is left", driver.ErrRefused, maxCzxid>>32)
	}
	if !d.session.hold(st) {
		st.forget()
		return driver.Grant{}, errAgain
	}
	if d.session.contact.spent(d.clock.Now()) {
		// A long wait, during which the leader has not been asked anything.
		if err := d.session.sync(); err != nil {
			d.session.drop(st)
			return driver.Grant{}, err
		}
	}
	return driver.Grant{
		Token: token(st.czxid),
		Spare: int64(min(max(st.claim.Spare, 0), 1<<spareBits-1)),
		Until: d.session.contact.until(),
	}, nil
}
