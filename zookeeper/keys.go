package zookeeper

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/names"
)

// folder is where the queues are, below the chroot.
const folder = "/locker"

// version is that of the forms of node names. Who finds another one counts the node as
// an exclusive claim.
const version = "1"

// queuePath returns the path of the node under which those queue who want name.
func queuePath(base, name string) string { return base + "/" + names.Escape(name) }

// claimNode returns the name of a claim's node, to which the server adds ten digits.
func claimNode(c *driver.Claim) string {
	return fmt.Sprintf("%s-%s-%s-%s-", c.ID, version, number(c.Weight), number(c.Limit))
}

// lighterNode returns the name of the node that says that a claim has become lighter.
func lighterNode(id string, weight int32) string {
	return fmt.Sprintf("%s-%s-weight-%d", id, version, weight)
}

// lingerNode returns the name of the node that takes the place of e for d more.
func lingerNode(e entry, d time.Duration) string {
	ms := max(1, (d+time.Millisecond-1)/time.Millisecond)
	return fmt.Sprintf("%s-%s-%s-%s-%d-%010d", e.id, version, number(e.weight), number(e.limit), ms, e.seq)
}

func number(n int32) string {
	if n == driver.All {
		return "all"
	}
	return strconv.Itoa(int(n))
}

func parseNumber(s string) (int32, bool) {
	if s == "all" {
		return driver.All, true
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err == nil && n > 0
}

// An entry is one node of a queue.
type entry struct {
	node          string
	id            string        // of the claim; the node's name if its form is not known
	seq           int64         // its place; -1, ahead of all, if the name has none
	weight, limit int32         // All if the form is not known
	linger        time.Duration // it has been released, and stays for so long from its creation
	ahead         int64         // weights of all ahead of it
}

// lastNumber is given again and again once a server has come so far, and a few numbers below zero: nobody
// can be told by them to be ahead of another. See [backend.renumber].
const lastNumber = 1<<31 - 1

// parseEntry takes the name of a node apart. A form that is not known, perhaps that of a later
// version, stands for an exclusive claim.
func parseEntry(node string) entry {
	e := entry{node: node, id: node, seq: -1, weight: driver.All, limit: driver.All}
	at := len(node) - 10
	if at < 0 {
		return e
	}
	seq, err := strconv.ParseUint(node[at:], 10, 32)
	if err != nil {
		return e
	}
	e.seq = int64(seq)
	head := node[:at]
	if strings.HasSuffix(head, "--") { // below zero, which comes after all others
		e.seq = 1<<32 - e.seq
		head = head[:at-1]
	}
	fields := strings.Split(head, "-")
	if len(fields) < 5 || len(fields) > 6 || !isID(fields[0]) || fields[1] != version || fields[len(fields)-1] != "" {
		return e
	}
	weight, ok := parseNumber(fields[2])
	limit, too := parseNumber(fields[3])
	var ms int64
	if len(fields) == 6 {
		ms, err = strconv.ParseInt(fields[4], 10, 64)
	}
	if !ok || !too || weight > limit || err != nil || ms < 0 {
		return e
	}
	e.id, e.weight, e.limit, e.linger = fields[0], weight, limit, time.Duration(ms)*time.Millisecond
	return e
}

// parseLighter takes the name of a node apart that says that a claim is lighter now.
func parseLighter(node string) (id string, weight int32, ok bool) {
	fields := strings.Split(node, "-")
	if len(fields) != 4 || !isID(fields[0]) || fields[1] != version || fields[2] != "weight" {
		return "", 0, false
	}
	weight, ok = parseNumber(fields[3])
	return fields[0], weight, ok
}

func isID(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }

// A queue is what is in the queue of one name, in its order.
type queue []entry

func parseQueue(children []string) queue {
	q := make(queue, 0, len(children))
	lighter := make(map[string]int32)
	for _, child := range children {
		id, weight, ok := parseLighter(child)
		if !ok {
			q = append(q, parseEntry(child))
		} else if old, known := lighter[id]; !known || weight < old {
			lighter[id] = weight
		}
	}
	for i, e := range q {
		if weight, ok := lighter[e.id]; ok {
			q[i].weight = min(e.weight, weight)
		}
	}
	slices.SortFunc(q, func(a, b entry) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.node, b.node)) })
	return q.weigh()
}

// weigh sets what is ahead of each.
func (q queue) weigh() queue {
	sum := int64(0)
	for i := range q {
		q[i].ahead = sum
		sum += int64(q[i].weight)
	}
	return q
}

// total returns the weight of all together.
func (q queue) total() int64 {
	if len(q) == 0 {
		return 0
	}
	last := q[len(q)-1]
	return last.ahead + int64(last.weight)
}

// index returns the place of the node, -1 if it is not there.
func (q queue) index(node string) int {
	return slices.IndexFunc(q, func(e entry) bool { return e.node == node })
}

func (e entry) granted() bool { return driver.Fits(e.ahead, e.weight, e.limit) }

// blocker returns the place of an entry without whose change or end the one at i, which is
// not granted, cannot be granted. That is the nearest that is in its way even alone: for
// exclusive claims the one directly ahead, for shared ones the nearest exclusive one. Where
// there is none, as among permits, it is the nearest that has to be granted before, and that says so
// by writing to its node. It returns -1 if all those are granted: then any of them may be the one
// to go, and whoever waits has to watch the whole queue, which is one waiter at a time.
func (q queue) blocker(i int) int {
	e := q[i]
	for j := i - 1; j >= 0; j-- {
		if !driver.Fits(int64(q[j].weight), e.weight, e.limit) {
			return j
		}
	}
	for j := i - 1; j >= 0; j-- {
		if !q[j].granted() && q[j].limit >= e.limit-e.weight {
			return j
		}
	}
	return -1
}

// tells reports whether the one at i, when it is granted, has to say so for the sake of
// somebody behind it, who may have it as its blocker.
func (q queue) tells(i int) bool {
	permits := func(e entry) bool { return e.limit != driver.All }
	return permits(q[i]) && slices.ContainsFunc(q[i+1:], permits)
}
