package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// An entry is one node of a queue: <ID>-1-<weight>-<limit>-<milliseconds to stay>-<czxid, or try>-<number>.
type entry struct {
	node          string        // its name
	id            string        // of the claim; the node's name if its form is not known
	seq           int64         // its number; -1, ahead of all, if there is none
	weight, limit int32         // All if the form is not known
	linger        time.Duration // the claim was released, and stays for so long from the node's creation
	czxid         int64         // of the claim's first node; 0 if this is it
	try           bool          // the claim does not wait, and this is its first node
	ahead         int64         // weights of all ahead of it
}

// version is that of the form of node names. A node of another one counts as an exclusive claim.
const version = "1"

// lastNumber is the greatest that there is. A server that has come so far gives it again and again, and a few numbers
// below zero, which make a form that is not known.
const lastNumber = 1<<31 - 1

// name returns the name of the entry's node, but for the number at its end.
func (e entry) name() string {
	ms := (e.linger + time.Millisecond - 1) / time.Millisecond
	first := strconv.FormatInt(e.czxid, 10)
	if e.try {
		first = "try"
	}
	return fmt.Sprintf("%s-%s-%s-%s-%d-%s-", e.id, version, amount(e.weight), amount(e.limit), ms, first)
}

func amount(n int32) string {
	if n == driver.All {
		return "all"
	}
	return strconv.Itoa(int(n))
}

// parseEntry takes the name of a node apart. A form that is not known, perhaps that of a later
// version, stands for an exclusive claim.
func parseEntry(node string) entry {
	e := entry{node: node, id: node, seq: -1, weight: driver.All, limit: driver.All}
	at := max(0, len(node)-10)
	seq, err := strconv.ParseUint(node[at:], 10, 32)
	if at == 0 || err != nil {
		return e
	}
	e.seq = int64(seq)
	fields := strings.Split(node[:at], "-")
	if len(fields) != 7 || len(fields[0]) != 32 || fields[1] != version || fields[6] != "" {
		return e
	}
	var n [4]int64 // weight, limit, milliseconds, czxid
	for i, field := range fields[2:6] {
		switch n[i], err = strconv.ParseInt(field, 10, 64); field {
		case "all":
			n[i], err = int64(driver.All), nil
		case "try":
			err = nil
		}
		if err != nil || n[i] < 0 {
			return e
		}
	}
	if n[0] > 0 && n[0] <= n[1] && n[1] <= int64(driver.All) {
		e.id, e.weight, e.limit = fields[0], int32(n[0]), int32(n[1])
		e.linger, e.czxid, e.try = time.Duration(n[2])*time.Millisecond, n[3], fields[5] == "try"
	}
	return e
}

// placed reports whether the entry's number tells its place.
func (e entry) placed() bool { return e.id != e.node && e.seq < lastNumber }

// A queue is what is in the queue of one name, in its order.
type queue []entry

func parseQueue(children []string) queue {
	q := make(queue, 0, len(children))
	for _, child := range children {
		q = append(q, parseEntry(child))
	}
	slices.SortFunc(q, func(a, b entry) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.node, b.node)) })
	ahead := int64(0)
	for i := range q {
		q[i].ahead = ahead
		ahead += int64(q[i].weight)
	}
	return q
}

func (e entry) granted() bool { return driver.Fits(e.ahead, e.weight, e.limit) }

func (e entry) permits() bool { return e.limit != driver.All }

// undecided reports whether e does not wait and is not granted: it is about to give up, or to see that those ahead have gone.
func (e entry) undecided() bool { return e.try && !e.granted() }

// excludes reports whether the other cannot be granted behind e even if nobody else is ahead.
func (e entry) excludes(other entry) bool {
	return !driver.Fits(int64(e.weight), other.weight, other.limit)
}

// blocker returns the place of the nearest entry without whose change or end the one at i, which is
// not granted, cannot be granted. It is in the way even alone (for exclusive claims the one directly
// ahead, for shared ones the nearest exclusive one), or both ask for permits and it has to be granted
// before, which it says by writing to its node. It returns -1 if there is none: then any of those
// ahead may be the one to go, and one waiter at a time has to watch the whole queue.
func (q queue) blocker(i int) int {
	e := q[i]
	for j := i - 1; j >= 0; j-- {
		before := e.permits() && q[j].permits() && !q[j].granted() && q[j].limit >= e.limit-e.weight
		if before || q[j].excludes(e) {
			return j
		}
	}
	return -1
}

// mustTell reports whether the one at i, when it is granted, has to say so for the sake of
// somebody behind it, who may have it as its blocker until then.
func (q queue) mustTell(i int) bool {
	behind := func(e entry) bool { return e.permits() && !q[i].excludes(e) }
	return q[i].permits() && slices.ContainsFunc(q[i+1:], behind)
}

const (
	// firstLook is when a waiter who has heard nothing looks at the queue all the same, and then watches its own node,
	// too, so that it is told of a deletion by hand. Most have had their turn by then, without that request.
	firstLook = 5 * time.Second

	// fallback is how often it looks from then on.
	fallback = 2 * time.Minute

	// mostLooks is how often a try looks while only other tries may be in its way, which have not decided yet, and
	// lookPause how long it waits in between.
	mostLooks, lookPause = 20, 5 * time.Millisecond

	// mostChecks is how many nodes a try that gives up checks, so that the request is not too long for the server.
	mostChecks = 64
)

// queue waits in the queue until the claim is granted.
func (d *backend) queue(ctx context.Context, st *claimState) (g driver.Grant, err error) {
	for whole, looks := false, 1; ; looks++ { // or watch the whole queue, and not one node
		children, news, err := d.list(st.queue, whole)
		if err != nil {
			return g, err
		}
		q := parseQueue(children)
		i := slices.IndexFunc(q, func(e entry) bool { return e.node == path.Base(st.node) })
		id, _ := d.state()
		switch {
		case i < 0 || id != st.session: // it was deleted, perhaps with the queue and all in it
			st.node = ""
			return g, errAgain
		case !q[i].placed(): // numbers begin anew in the next queue
			return g, cmp.Or(d.remove(st.node), d.conn.Delete(st.queue, -1), errAgain)
		case q[i].granted():
			if q.mustTell(i) {
				if _, err := d.conn.Set(st.node, []byte(st.claim.Owner), -1); err != nil {
					return g, err
				}
			}
			return d.grant(st)
		}
		look, err := d.expire(st, q[:i])
		blocker := q.blocker(i)
		switch {
		case err != nil || look == 0: // again, at once
		case !st.claim.Wait:
			err = d.giveUp(st, q[i], q[:i], looks)
		case whole:
			whole, err = false, d.wait(ctx, st, news, look)
		case blocker >= 0:
			whole, err = d.waitFor(ctx, st, q[blocker], look)
		default:
			whole = true
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) { // otherwise a node has gone since the queue was listed
			return g, err
		}
	}
}

// giveUp takes e, a try that has to wait for some of those ahead, out of the queue and returns driver.ErrTaken. It does so while
// they are there, in the same transaction: without them e would be a holder to others. It returns nil, or zk.ErrNoNode, when
// it is time to look again: one has gone, or only other tries may be in the way, which are about to give up.
func (d *backend) giveUp(st *claimState, e entry, ahead queue, looks int) error {
	one := slices.IndexFunc(ahead, func(other entry) bool { return !other.undecided() && other.excludes(e) })
	if one < 0 && looks < mostLooks && slices.ContainsFunc(ahead, entry.undecided) {
		time.Sleep(lookPause)
		return nil
	}
	if one >= 0 {
		ahead = ahead[one:]
	}
	ops := []any{&zk.DeleteRequest{Path: st.node, Version: -1}}
	for i, sum := 0, int64(0); driver.Fits(sum, e.weight, e.limit) && i < mostChecks; i++ {
		ops = append(ops, &zk.CheckVersionRequest{Path: st.queue + "/" + ahead[i].node, Version: -1})
		sum += int64(ahead[i].weight)
	}
	_, err := d.conn.Multi(ops...)
	return cmp.Or(err, driver.ErrTaken)
}

// list returns the children of path, none if it is not there, and with watch a channel that tells of the next change.
func (d *backend) list(path string, watch bool) (children []string, news <-chan zk.Event, err error) {
	if watch {
		children, _, news, err = d.conn.ChildrenW(path)
	} else {
		children, _, err = d.conn.Children(path)
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return children, news, err
}

// expire removes one of those ahead who stay for a time after their release, if that is over. It returns when to look
// again, 0 if that is at once. Times of the server are compared with times of the server only.
func (d *backend) expire(st *claimState, ahead queue) (look time.Duration, err error) {
	look = firstLook
	if st.news != nil {
		look = fallback
	}
	for _, e := range ahead {
		if e.linger == 0 {
			continue
		}
		node := st.queue + "/" + e.node
		_, stat, err := d.conn.Get(node)
		if err != nil {
			return 0, err
		}
		left := time.Duration(stat.Ctime)*time.Millisecond + e.linger - time.Duration(d.clock.Now()) - st.skew
		if left <= 0 {
			return 0, d.conn.Delete(node, -1) // which fails if somebody has put a node below it
		}
		look = min(look, left+time.Millisecond)
	}
	return look, nil
}

// waitFor waits until e, which blocks the claim, has changed or gone, or until it is time to look. It returns at once,
// and true, if e was written to before: it has been granted, perhaps after the queue was listed.
func (d *backend) waitFor(ctx context.Context, st *claimState, e entry, look time.Duration) (granted bool, err error) {
	node := st.queue + "/" + e.node
	if e.id == e.node {
		d.log.Warn("zookeeper: waiting for a node that is none of this version's claims", "node", node)
	}
	stat, news, err := d.watch(node)
	if err != nil || stat.Version > 0 {
		return err == nil, err
	}
	return false, d.wait(ctx, st, news, look)
}

// watch returns the Stat of a node and a channel that tells of its next change. All who watch the node share the channel:
// the library keeps each that it makes until then, also when nobody waits for it any more.
func (d *backend) watch(node string) (stat *zk.Stat, news <-chan zk.Event, err error) {
	if shared, ok := d.watched.Load(node); ok {
		_, stat, err = d.conn.Get(node)
		return stat, shared.(<-chan zk.Event), err
	}
	_, stat, news, err = d.conn.GetW(node)
	if err == nil {
		d.watched.Store(node, news)
		go func() {
			<-news // others are told when it is closed, at once
			d.watched.CompareAndDelete(node, news)
		}()
	}
	return stat, news, err
}

// wait waits for news, or those of the claim's own node, or until it is time to look.
func (d *backend) wait(ctx context.Context, st *claimState, news <-chan zk.Event, look time.Duration) (err error) {
	select {
	case <-news:
	case <-st.news:
		st.news = nil
	case <-time.After(look):
		if st.news == nil {
			_, _, st.news, err = d.conn.GetW(st.node)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return err
}
