package zookeeper

import (
	"strconv"
	"strings"

	"github.com/seed80cd6120/locker/internal/names"
)

// A node in a queue is called <ID of the claim>-lock-<sequence number>. The ID
// in front lets a claim find its node also when the answer to its creation was
// lost.
const mark = "-lock-"

// folder is where the queues are, below the chroot.
const folder = "/locker"

// queuePath is the node under which those queue who want name.
func queuePath(base, name string) string { return base + "/" + names.Escape(name) }

// childOf returns the name of a path's node.
func childOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// parseNode takes a child's name apart. Whatever is not one of ours is not ok: it
// is somebody else's affair and nobody waits for it.
func parseNode(child string) (id string, seq int32, ok bool) {
	if len(child) < 32+len(mark)+10 || child[32:32+len(mark)] != mark {
		return "", 0, false
	}
	for _, c := range []byte(child[:32]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", 0, false
		}
	}
	n, err := strconv.ParseInt(child[32+len(mark):], 10, 32)
	return child[:32], int32(n), err == nil
}

// before says whether the node numbered a was made before the one numbered b. The
// numbers count up to 2147483647 and go on at -2147483648, so that only their
// difference tells, as long as it is less than half of them all.
func before(a, b int32) bool { return a-b < 0 }

// A line is what one look at a queue shows to one of those in it.
type line struct {
	own    string // its own node, "" if it is not there
	ahead  string // the nearest node before it, "" if it is the first
	second bool   // ahead is the first
}

// lineUp finds the place of claim id among children. Should a claim have more than
// one node, the first counts.
func lineUp(children []string, id string) line {
	var l line
	var own, nearest int32
	for _, child := range children {
		if !strings.HasPrefix(child, id) {
			continue
		}
		if _, seq, ok := parseNode(child); ok && (l.own == "" || before(seq, own)) {
			l.own, own = child, seq
		}
	}
	if l.own == "" {
		return l
	}
	for _, child := range children {
		_, seq, ok := parseNode(child)
		if !ok || !before(seq, own) {
			continue
		}
		l.second = l.ahead == ""
		if l.ahead == "" || before(nearest, seq) {
			l.ahead, nearest = child, seq
		}
	}
	return l
}

// anyone says whether somebody is in the queue.
func anyone(children []string) bool {
	for _, child := range children {
		if _, _, ok := parseNode(child); ok {
			return true
		}
	}
	return false
}

// passedPath is a node that never is: a holder that had waited makes and removes
// it in the transaction that removes its own node, and so tells those who watch
// it that it held the lock until then.
func passedPath(node string) string {
	return node[:strings.LastIndex(node, mark)] + "-passed"
}
