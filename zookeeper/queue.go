package zookeeper

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
)

// version is that of the form of node names. A node of another one counts as an exclusive claim.
const version = "1"

// name returns the name of the entry's node, but for the number at its end.
func (e entry) name() string {
	ms := (e.linger + time.Millisecond - 1) / time.Millisecond
	return fmt.Sprintf("%s-%s-%s-%s-%d-%d-", e.id, version, amount(e.weight), amount(e.limit), ms, e.czxid)
}

func amount(n int32) string {
	if n == driver.All {
		return "all"
	}
	return strconv.Itoa(int(n))
}

// parseAmount returns 0 for what is no amount.
func parseAmount(s string) int32 {
	if s == "all" {
		return driver.All
	}
	n, _ := strconv.ParseUint(s, 10, 31)
	return int32(n)
}

// An entry is one node of a queue.
type entry struct {
	node          string        // its name
	id            string        // of the claim; the node's name if its form is not known
	seq           int64         // its number; -1, ahead of all, if there is none
	weight, limit int32         // All if the form is not known
	linger        time.Duration // the claim was released, and stays for so long from the node's creation
	czxid         int64         // of the claim's first node; 0 if this is it
	ahead         int64         // weights of all ahead of it
}

// lastNumber is the greatest that there is. A server that has come so far gives it again and again, and a few numbers
// below zero: nobody can be told by such a number to be ahead of another.
const lastNumber = 1<<31 - 1

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
	head, negative := strings.CutSuffix(node[:at], "--")
	if negative {
		e.seq = lastNumber
	}
	fields := strings.Split(strings.TrimSuffix(head, "-"), "-")
	if len(fields) != 6 || len(fields[0]) != 32 || fields[1] != version {
		return e
	}
	weight, limit := parseAmount(fields[2]), parseAmount(fields[3])
	ms, err := strconv.ParseUint(fields[4], 10, 32)
	czxid, wrong := strconv.ParseInt(fields[5], 10, 64)
	if err == nil && wrong == nil && weight > 0 && weight <= limit {
		e.id, e.weight, e.limit, e.linger, e.czxid = fields[0], weight, limit, time.Duration(ms)*time.Millisecond, czxid
	}
	return e
}

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
