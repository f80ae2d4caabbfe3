package zookeeper

import (
	"log/slog"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
)

// operator is a client of the library alone, as somebody at a console.
type operator struct {
	*zk.Conn
	t testing.TB
}

func console(t testing.TB, addr string) operator {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, time.Minute, zk.WithLogger(quiet), zk.WithLogInfo(false))
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	return operator{c, t}
}

// queue waits until the queue for name looks right. A queue that is not there is empty. It sets no watch: the library
// has a data race when it sets watches again on a server that answers at once.
func (o operator) queue(name string, right func(children []string) bool) (children []string) {
	o.t.Helper()
	var err error
	defer func() {
		if o.t.Failed() {
			o.t.Logf("queue: %q, %v", children, err)
		}
	}()
	eventually.Is(o.t, "the queue for "+name+" as it is to be", func() bool {
		children, _, err = o.Children(queuePath(folder, name))
		return (err == nil || err == zk.ErrNoNode) && right(children)
	})
	return children
}

func (o operator) length(name string, n int) []string {
	o.t.Helper()
	return o.queue(name, func(all []string) bool { return len(all) == n })
}

// nodeOf waits for the node of a claim.
func (o operator) nodeOf(c *driver.Claim) string {
	o.t.Helper()
	all := o.queue(c.Name, func(all []string) bool { return ofClaim(all, c) != "" })
	return queuePath(folder, c.Name) + "/" + ofClaim(all, c)
}

// ofClaim returns the name of a claim's node, "" if there is none.
func ofClaim(children []string, c *driver.Claim) string {
	for _, e := range parseQueue(children) {
		if e.id == c.ID {
			return e.node
		}
	}
	return ""
}

func (o operator) delete(path string) {
	o.t.Helper()
	if err := o.Delete(path, -1); err != nil {
		o.t.Fatalf("delete %s: %v", path, err)
	}
}

// plant makes an ephemeral node of the operator's own.
func (o operator) plant(path string) {
	o.t.Helper()
	if _, err := o.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		o.t.Fatalf("create %s: %v", path, err)
	}
}

func (o operator) gone(path string) {
	o.t.Helper()
	eventually.Within(o.t, 20*time.Second, path+" deleted", func() bool {
		there, _, err := o.Exists(path)
		return err == nil && !there
	})
}

// quiet is a log of the library that nobody reads.
var quiet = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)

// nameOf returns the name of a claim's node, but for its number.
func nameOf(c *driver.Claim) string { return entry{id: c.ID, weight: c.Weight, limit: c.Limit}.name() }
