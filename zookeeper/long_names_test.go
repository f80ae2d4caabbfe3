package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// small is a server that takes no request of more than 9,000 bytes.
func small(t *testing.T) *servers.ZooKeeper {
	return servers.NewZooKeeper(t, servers.ZooKeeperOptions{Properties: map[string]string{"jute.maxbuffer": "9000"}})
}

// Many long names are held and waited for against a server that takes short requests only. The connection
// breaks, which has the library set all watches again; nothing is lost, and a deletion by hand is told.
func TestManyLongNamesOnServerWithSmallBuffer(t *testing.T) {
	beside(t)
	z := small(t)
	p, op := front(t, z.Addr()), console(t, z.Addr())
	l, d := both(t, []string{p.Addr()}, locker.WithTTL(30*time.Second))
	const n = 60
	long := func(i int) string { return fmt.Sprint(i, strings.Repeat("\xff", 1000)) }
	locks := make([]*locker.Lock, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if locks[i], err = l.Acquire(within(t, time.Minute), long(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	// The node of each.
	watches(t, z, n)
	for range 3 {
		before, cut := p.Stats().Accepted, time.Now()
		p.Cut()
		eventually.Is(t, "an answer by a new connection", func() bool { // before which the watches of the old one end
			if p.Stats().Accepted == before {
				return false
			}
			_, err := d.session.conn.Sync("/")
			return err == nil
		})
		watches(t, z, n)
		if got := p.Stats().Accepted - before; got > 1+int(time.Since(cut)/time.Second) { // an attempt may take a second
			t.Errorf("%d connections after a cut", got)
		}
	}
	path := queuePath(folder, long(7))
	op.delete(path + "/" + op.length(long(7), 1)[0])
	await(t, locks[7].Context().Done(), "the holder to be told")
	for i, lock := range locks {
		if err := freed(within(t, time.Minute), lock); (err != nil) != (i == 7) {
			t.Errorf("release %d: %v", i, err)
		}
	}
}

// The reply to the last request is lost before a name counts as too long. What it has made is removed.
func TestLastRequestOfLongNameWhoseReplyIsLost(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, p := console(t, z.Addr()), front(t, z.Addr())
	d := raw(t, []string{p.Addr()})
	c := claim(name(t) + strings.Repeat("x", 1000))
	st := &claimState{claim: c, queue: d.queuePath(c.Name), hangups: 4}
	c.State = st
	plantQueue(t, op, c.Name)
	p.SwallowReply(carries(opMulti), 0)
	_, err := d.try(within(t, time.Minute), st)
	if !isRefusal(err) {
		_, err = d.try(within(t, time.Minute), st)
	}
	if !errors.Is(err, errTooLong) {
		t.Errorf("acquire: %v", err)
	}
	must(t, d.Abandon(within(t, time.Minute), c))
	op.length(c.Name, 0)
}

// A name that is too long for the server is refused, and soon: there is nothing to wait for.
func TestNameThatIsTooLongForTheServer(t *testing.T) {
	beside(t)
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{Properties: map[string]string{"jute.maxbuffer": "4096"}})
	l := open(t, []string{z.Addr()})
	held, err := l.Acquire(within(t, time.Minute), "short")
	must(t, err)
	n := requests(t, z, func() {
		_, err = l.Acquire(within(t, time.Minute), strings.Repeat("\xff", 1000))
	})
	if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "jute.maxbuffer") {
		t.Errorf("acquire: %v", err)
	}
	if n > 100 {
		t.Errorf("it took %d requests", n)
	}
	if err := freed(within(t, time.Minute), held); err != nil {
		t.Errorf("another lock: %v", err)
	}
	if !uses(t, l, "short") {
		t.Error("the Locker is of no use any more")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}
