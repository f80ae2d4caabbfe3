package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// Acquire takes a place in the queue and waits until the claim is granted.
func (d *backend) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	st := newState(c, d.base)
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
			if err := sleep(ctx, pause); err != nil {
				return g, err
			}
			pause = min(2*pause, time.Second)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
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
	st.asked, st.doubt = false, false
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
	if st.doubt {
		if err := d.find(st, id); err != nil {
			return driver.Grant{}, err
		}
	}
	if st.node == "" {
		if !st.claim.Wait && !st.asked {
			if err := d.free(st); err != nil {
				return driver.Grant{}, err
			}
		}
		alone, err := d.join(st, id)
		if err != nil {
			return driver.Grant{}, err
		}
		if alone {
			return d.grant(st)
		}
	}
	return d.queue(ctx, st)
}

// free returns driver.ErrTaken if the claim would have to wait, without writing anything.
func (d *backend) free(st *claimState) error {
	if err := d.session.sync(); err != nil {
		return failed("sync", st.queue, err)
	}
	l, err := d.list(st.queue, false)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
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

// find looks for a node of the claim of which it is not certain that it is there. When there is
// none, st.doubt is false afterwards.
//
// No request of an earlier connection can be carried out after the sync: a server closes the
// session's earlier connection when it takes a new one, a leader refuses what comes from the
// server that the session has left, and what was taken before is ahead of the sync.
func (d *backend) find(st *claimState, id int64) error {
	if err := d.session.sync(); err != nil {
		return failed("sync", st.queue, err)
	}
	nodes, err := d.nodesOf(st)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		var there bool
		var stat *zk.Stat
		err := d.session.read(func() (err error) {
			there, stat, err = d.session.conn.Exists(node)
			return err
		})
		switch {
		case err != nil:
			return failed("read", node, err)
		case !there:
		case stat.EphemeralOwner == id && st.node == "":
			st.node, st.session, st.czxid = node, id, stat.Czxid
		default: // of a session that has ended, so not for long; nobody has to wait for that
			if err := d.remove(node); err != nil {
				return err
			}
		}
	}
	st.doubt = false
	return nil
}

// nodesOf returns the paths of all nodes in the queue that carry the claim's ID.
func (d *backend) nodesOf(st *claimState) (nodes []string, err error) {
	var children []string
	err = d.session.read(func() (err error) {
		children, _, err = d.session.conn.Children(st.queue)
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, failed("list", st.queue, err)
	}
	for _, child := range children {
		if strings.HasPrefix(child, st.claim.ID+"-") {
			nodes = append(nodes, st.queue+"/"+child)
		}
	}
	return nodes, nil
}

// join makes the claim's node. Writing to the queue in the same transaction brings its Stat, which
// tells the node's czxid, the server's time, and whether the node is alone.
func (d *backend) join(st *claimState, id int64) (alone bool, err error) {
	create := &zk.CreateRequest{
		Path: st.queue + "/" + claimNode(st.claim), Data: []byte(st.claim.Owner), Acl: d.acl, Flags: zk.FlagEphemeralSequential,
	}
	for {
		st.asked, st.doubt = true, true
		var made []zk.MultiResponse
		err := d.session.write(func() (err error) {
			made, err = d.session.conn.Multi(create, &zk.SetDataRequest{Path: st.queue, Version: -1})
			return err
		})
		st.doubt = !wasAnswered(err)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			if err := d.makeQueue(st); err != nil {
				return false, err
			}
			continue
		case err != nil:
			return false, failed("create a node in", st.queue, err)
		case !d.session.is(id):
			st.doubt = true
			return false, errAgain
		}
		st.made = false
		stat := made[1].Stat
		st.node, st.session, st.czxid = made[0].String, id, stat.Pzxid
		d.session.tell(stat.Mtime)
		return stat.NumChildren == 1, nil
	}
}

// queue waits in the queue.
func (d *backend) queue(ctx context.Context, st *claimState) (driver.Grant, error) {
	for whole := false; ; {
		l, err := d.list(st.queue, whole)
		if errors.Is(err, zk.ErrNoNode) { // the queue was deleted with all in it
			st.forget()
			return driver.Grant{}, errAgain
		}
		if err != nil {
			return driver.Grant{}, err
		}
		st.known = max(st.known, l.pzxid)
		i := l.index(path.Base(st.node))
		switch {
		case i < 0:
			st.forget()
			return driver.Grant{}, errAgain
		case l.queue[i].seq >= lastNumber:
			return driver.Grant{}, d.renumber(ctx, st)
		case l.queue[i].granted():
			if l.tells(i) {
				if err := d.touch(st); err != nil {
					return driver.Grant{}, err
				}
			}
			return d.grant(st)
		case !st.claim.Wait:
			if err := d.remove(st.node); err != nil {
				return driver.Grant{}, err
			}
			return driver.Grant{}, driver.ErrTaken
		}
		blocker := l.blocker(i)
		if blocker < 0 && !whole {
			whole = true
			continue
		}
		whole = blocker < 0
		if err := d.wait(ctx, st, l, blocker); err != nil {
			return driver.Grant{}, err
		}
	}
}

// touch writes to the claim's node, which tells those who watch it to look again.
func (d *backend) touch(st *claimState) error {
	err := d.session.write(func() error {
		_, err := d.session.conn.Set(st.node, []byte(st.claim.Owner), -1)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		st.forget()
		return errAgain
	}
	if err != nil {
		return failed("write to", st.node, err)
	}
	return nil
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
	st.mu.Lock()
	st.granted = true
	st.mu.Unlock()
	if !d.session.hold(st) {
		st.forget()
		return driver.Grant{}, errAgain
	}
	if d.session.contact.spent(d.clock.Now()) {
		// A long wait, during which the leader has not been asked anything.
		if err := d.session.sync(); err != nil {
			d.session.drop(st)
			return driver.Grant{}, failed("sync", st.queue, err)
		}
	}
	return driver.Grant{
		Token: token(st.czxid),
		Spare: int64(min(max(st.claim.Spare, 0), 1<<spareBits-1)),
		Until: d.session.contact.until(),
	}, nil
}
