package zookeeper

import (
	"fmt"
	"math"

	"github.com/go-zookeeper/zk"
)

// A call is one request of ours and its answer. What the answer was may be looked at
// once ask has returned without an error.
type call struct {
	op   int32
	req  encoder
	xid  int32
	err  error
	body []byte
	done chan struct{} // closed when answered or when the wire is dead
}

func newCall(op int32) *call { return &call{op: op, req: request(0, op)} }

func (c *call) reply() *decoder { return &decoder{rest: c.body} }

// leader says whether the answer took the leader of an ensemble.
func (c *call) leader() bool {
	switch c.op {
	case opCreate, opCreateContainer, opDelete, opMulti, opSync:
		return true
	}
	return false
}

func (c *call) finish(err error) {
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}

func pathCall(op int32, path string) *call {
	c := newCall(op)
	c.req.string(path)
	return c
}

func syncCall(path string) *call { return pathCall(opSync, path) }

func listCall(queue string) *call {
	c := pathCall(opGetChildren, queue)
	c.req.bool(false)
	return c
}

// children is the answer to listCall.
func (c *call) children() ([]string, error) {
	d := c.reply()
	all := d.strings()
	return all, d.err
}

func statCall(path string) *call {
	c := pathCall(opExists, path)
	c.req.bool(false)
	return c
}

func deleteCall(path string) *call {
	c := pathCall(opDelete, path)
	c.req.int32(-1)
	return c
}

// passCall removes node in a way that tells those who watch passedPath that it was
// the first until now.
func passCall(node string, acl []zk.ACL) *call {
	c := newCall(opMulti)
	c.req.op(opCreate)
	c.req.create(passedPath(node), "", acl, 0)
	for _, path := range []string{passedPath(node), node} {
		c.req.op(opDelete)
		c.req.string(path)
		c.req.int32(-1)
	}
	c.req.op(-1)
	return c
}

// removed says what came of deleteCall or passCall.
func (c *call) removed() error {
	if c.err == nil && c.op == opMulti {
		return c.reply().results().err
	}
	return c.err
}

// watchCall is the request by which clients set their watches again on a new connection.
// It is answered at once with an event where things are already as one waits for.
func watchCall(nodes, marks []string) *call {
	c := newCall(opSetWatches)
	c.req.int64(math.MaxInt64) // however recent a node is
	c.req.strings(nodes...)
	c.req.strings(marks...)
	c.req.strings()
	return c
}

func unwatchCall(path string) *call {
	c := pathCall(opRemoveWatches, path)
	c.req.int32(watchData)
	return c
}

// createCall makes the claim's node. Nothing is written to the queue in the same
// transaction, for the sake of its answer: the queue's Stat as it is then, which
// tells the node's czxid and whether it is alone. A list sent behind would take the
// server longer.
func (d *backend) createCall(p *place) *call {
	c := newCall(opMulti)
	d.join(c, p, -1)
	return c
}

// relayCall makes the node of next when p's goes, if the queue has that version, or any
// if it is -1.
func (d *backend) relayCall(p, next *place, version int32) *call {
	c := newCall(opMulti)
	c.req.op(opDelete)
	c.req.string(p.node)
	c.req.int32(-1)
	d.join(c, next, version)
	return c
}

func (d *backend) join(c *call, p *place, version int32) {
	c.req.op(opCreate)
	c.req.create(p.queue+"/"+p.claim.ID+mark, p.claim.Owner, d.acl, zk.FlagEphemeralSequential)
	c.req.op(opSetData)
	c.req.string(p.queue)
	c.req.string("")
	c.req.int32(version)
	c.req.op(-1)
}

// created is the answer to createCall or relayCall.
func (c *call) created() (r results) {
	if c.err != nil {
		r.err = c.err
		return r
	}
	return c.reply().results()
}

// queueCall makes the queue: a container, which the server removes when it has been
// empty for a while.
func (d *backend) queueCall(path string) *call {
	op, flags := opCreateContainer, int32(zk.FlagContainer)
	if d.plain.Load() {
		op, flags = opCreate, 0
	}
	c := newCall(op)
	c.req.create(path, "", d.acl, flags)
	return c
}

// baseCall makes one of the nodes above the queues.
func (d *backend) baseCall(path string) *call {
	c := newCall(opCreate)
	c.req.create(path, "", d.acl, 0)
	return c
}

func tried(what, path string, err error) error {
	return fmt.Errorf("%s %s: %w", what, path, err)
}
