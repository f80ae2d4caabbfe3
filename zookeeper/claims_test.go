package zookeeper

import (
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/locktest"
)

var (
	take    = locktest.Take
	taken   = locktest.Taken
	release = locktest.Free
	begin   = locktest.BeginClaim
)

type acquisition = locktest.Acquisition[driver.Grant]

// patience is how long a grant may take that nothing stands in the way of.
const patience = 20 * time.Second

// renewed returns the error that Renew reports of a claim.
func renewed(t testing.TB, d *backend, c *driver.Claim) error {
	t.Helper()
	_, err := locktest.Renewed(t, d, c)
	return err
}

// claim makes an exclusive claim that waits.
func claim(name string) *driver.Claim { return locktest.Claim(name, 15*time.Second, true) }

// kind makes a claim of that weight and limit.
func kind(name string, weight, limit int32) *driver.Claim {
	c := claim(name)
	c.Weight, c.Limit = weight, limit
	return c
}

func shared(name string) *driver.Claim { return kind(name, 1, driver.All) }

// trying makes a claim one that does not wait.
func trying(c *driver.Claim) *driver.Claim {
	c.Wait = false
	return c
}

// waiting begins to wait, and returns when the claim is in the queue.
func waiting(t testing.TB, op operator, d *backend, c *driver.Claim) *acquisition {
	t.Helper()
	done := begin(within(t, time.Minute), d, c)
	op.nodeOf(c)
	return done
}

// stillWaits asserts that a claim is not granted, as far as its client has heard.
func stillWaits(t testing.TB, done *acquisition, d *backend) {
	t.Helper()
	for range 3 { // what follows from the news has been answered after that
		if _, err := d.session.conn.Sync("/"); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-done.Done:
		t.Fatalf("granted too early: %+v, %v", done.Value, done.Err)
	default:
	}
}

// A client wants a lock: a session of its own with one claim.
type client struct {
	*backend
	t     testing.TB
	claim *driver.Claim
	node  string
	turn  *acquisition
}

// queues has a new client queue for name, and returns when it is in the queue.
func queues(t testing.TB, op operator, addr, name string) *client {
	t.Helper()
	c := &client{backend: raw(t, []string{addr}), t: t}
	c.claim = claim(name)
	c.turn = begin(within(t, time.Minute), c.backend, c.claim)
	c.node = op.nodeOf(c.claim)
	return c
}

// holds waits for the client's turn.
func (c *client) holds() driver.Grant {
	c.t.Helper()
	return c.turn.Granted(c.t, patience)
}

// waits asserts that it is not the client's turn, as far as it has been told.
func (c *client) waits() {
	c.t.Helper()
	select {
	case <-c.turn.Done:
		c.t.Fatalf("granted while another holds: %+v, %v", c.turn.Value, c.turn.Err)
	default:
	}
}

// told returns when what the servers had to say until now has been heard and
// answered.
func (c *client) told() {
	c.t.Helper()
	for range 2 { // what the client asks after the news has been answered after the second
		if _, err := c.session.conn.Sync("/"); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *client) releases() {
	c.t.Helper()
	if err := c.Release(within(c.t, time.Minute), c.claim); err != nil {
		c.t.Fatalf("release: %v", err)
	}
}
