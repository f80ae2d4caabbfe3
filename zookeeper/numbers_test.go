package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

const someID = "0123456789abcdef0123456789abcdef"

// plantAs makes a node of the given number for a claim, which finds it as its own.
func plantAs(t *testing.T, d *backend, c *driver.Claim, path, seq string) *claimState {
	t.Helper()
	if _, err := d.session.conn.Create(path+"/"+claimNode(c)+seq, nil, zk.FlagEphemeral, d.acl); err != nil {
		t.Fatal(err)
	}
	st := &claimState{claim: c, queue: path, doubt: true}
	c.State = st
	return st
}

func plantQueue(t *testing.T, op operator, n string) string {
	t.Helper()
	path := queuePath(folder, n)
	for _, p := range []string{folder, path} {
		if _, err := op.Create(p, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			t.Fatal(err)
		}
	}
	return path
}

// A server gives the greatest number that there is to every further node, and some below
// zero: nobody who has such a number may hold the lock, or two would. They begin a new
// queue when those ahead have had their turns.
func TestNumbersThatAreUsedUp(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	n := name(t)
	path := plantQueue(t, op, n)
	head := path + "/" + someID + "-1-all-all-2147483646"
	op.plant(head)
	type holder struct {
		d *backend
		c *driver.Claim
		p *claimState
		g driver.Grant
	}
	turns := make(chan holder, 4)
	for _, seq := range []string{"2147483647", "2147483647", "-2147483648", "2147483647"} {
		d := raw(t, []string{z.Addr()})
		c, _ := claim(t, n)
		p := plantAs(t, d, c, path, seq)
		go func() {
			for {
				g, err := d.try(t.Context(), p)
				if errors.Is(err, errAgain) {
					continue
				}
				if err == nil {
					turns <- holder{d, c, p, g}
				} else if t.Context().Err() == nil {
					t.Error(err)
				}
				return
			}
		}()
	}
	op.length(n, 1) // they have all gone
	select {
	case h := <-turns:
		t.Fatalf("%s is held beside %s", h.p.node, head)
	default:
	}
	op.delete(head)
	var last int64
	for range 4 {
		h := await(t, turns, "turn")
		if h.g.Token <= last {
			t.Errorf("token %d after %d", h.g.Token, last)
		}
		last = h.g.Token
		if seq := parseEntry(h.p.node[len(path)+1:]).seq; seq > 100 {
			t.Errorf("%s is held", h.p.node)
		}
		select {
		case other := <-turns:
			t.Fatalf("%s and %s are held at once", h.p.node, other.p.node)
		default:
		}
		if err := h.d.Release(within(t, time.Minute), h.c); err != nil {
			t.Fatal(err)
		}
	}
}

// Who only tries does not wait for the queue to be empty.
func TestTryWithNumberThatIsUsedUp(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	path := plantQueue(t, op, n)
	op.plant(path + "/" + someID + "-1-all-all-2147483646")
	c, _ := claim(t, n)
	c.Wait = false
	p := plantAs(t, d, c, path, "2147483647")
	if _, err := d.try(within(t, time.Minute), p); !errors.Is(err, driver.ErrTaken) {
		t.Errorf("try: %v, want %v", err, driver.ErrTaken)
	}
	op.length(n, 1)
}
