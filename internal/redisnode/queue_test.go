package redisnode

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// waits has a claim join the queue; it returns the answer, and what it is told from then on.
func (n *Node) waits(t *testing.T, c *Claim) (Answer, <-chan Answer) {
	t.Helper()
	news := make(chan Answer, 10)
	n.Join(c, func(a Answer) { news <- a })
	t.Cleanup(func() { n.client.Del(context.Background(), c.lock, c.queue) })
	a, err := n.Acquire(within(t, time.Minute), c, Queue)
	must(t, err)
	return a, news
}

// A waiter looks when any of those before it, should it be granted the name, can have died.
func TestLeftCountsThoseWhoWait(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	for _, ttls := range [][]int{{10, 1, 10, 10}, {10, 10, 1, 10}, {1, 10, 10, 10}} {
		name, left := fmt.Sprint(t.Name(), ttls), time.Duration(0)
		for _, ttl := range ttls {
			c := n.exclusive(name)
			c.TTL = time.Duration(ttl) * time.Minute
			a, _ := n.waits(t, c)
			left = a.Left
		}
		if left <= 0 || left > time.Minute {
			t.Errorf("%v: it looks in %v", ttls, left)
		}
	}
}

// Where a claim with a shorter TTL goes before one that waits, that one looks.
func TestOlderClaimComesLater(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	n.opts.ByAge = true
	h, w, older := n.exclusive(t.Name()), n.exclusive(t.Name()), n.exclusive(t.Name())
	older.Since, older.TTL = w.Since-1, time.Second
	n.waits(t, h)
	_, news := n.waits(t, w)
	n.waits(t, older)
	if a := locktest.Receive(t, "news", news, 20*time.Second); a.Granted || a.Evicted {
		t.Errorf("told %+v", a)
	}
}

// A name that stays taken for another time than was known is told to the first who listens.
func TestLingerIsToldToTheLiving(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	ctx := within(t, time.Minute)
	h, dead, w := n.exclusive(t.Name()), n.exclusive(t.Name()), n.exclusive(t.Name())
	n.waits(t, h)
	dead.channel += "dead"
	n.client.RPush(ctx, h.queue, dead.entry(), "nonsense", "2 of a later version")
	_, news := n.waits(t, w)
	must(t, n.Linger(ctx, h.Claim, 10*time.Minute))
	if a := locktest.Receive(t, "news", news, 20*time.Second); a.Granted || a.Evicted {
		t.Errorf("told %+v", a)
	}
}

// Who is the first to wait once others have been granted the name, or gave up, is told that it stays taken for another time than
// was known.
func TestLingerIsToldToTheNext(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	ctx := within(t, 5*time.Minute)
	for what, leave := range map[string]func(h, w *Claim) error{
		"a holder leaves": func(h, _ *Claim) error { return n.Release(ctx, h.Claim) },
		"a holder is dead": func(h, w *Claim) error {
			(&line{T: t, node: n, name: h.Name}).expire(&place{Claim: h, weight: 1})
			_, err := n.Acquire(ctx, w, Queue)
			return err
		},
		"the first gives up": func(_, w *Claim) error { return n.Abandon(ctx, w.Claim) },
	} {
		var claims [4]*Claim
		var news [4]<-chan Answer
		for i := range claims {
			c := n.exclusive(t.Name() + what)
			c.Weight, c.Limit, c.TTL = 1, 2, time.Hour
			claims[i] = c
			_, news[i] = n.waits(t, c)
		}
		must(t, n.Linger(ctx, claims[1].Claim, 10*time.Minute))
		locktest.Receive(t, what+": news for the first", news[2], 20*time.Second)
		must(t, leave(claims[0], claims[2]))
		if a := locktest.Receive(t, what+": news for the next", news[3], 20*time.Second); a.Granted || a.Evicted {
			t.Errorf("%s: told %+v", what, a)
		}
		if a, err := n.Acquire(ctx, claims[3], Queue); err != nil || a.Left > 10*time.Minute {
			t.Errorf("%s: it looks again in %v, %v", what, a.Left, err)
		}
	}
}

// Of readers that have died no more stay than a few, also where there are always others.
func TestDeadReadersDoNotPileUp(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	ctx := within(t, 5*time.Minute)
	l := &line{T: t, node: n, name: t.Name()}
	var live *place
	for range 200 {
		p := &place{Claim: n.exclusive(l.name), weight: 1}
		p.Weight, p.TTL = 1, time.Hour
		_, err := n.Acquire(ctx, p.Claim, Try)
		must(t, err)
		if live == nil {
			live = p
			continue
		}
		l.expire(p)
	}
	if fields := n.client.HLen(ctx, live.lock).Val(); fields > 70 {
		t.Errorf("%d records for one reader", fields)
	}
	if err := n.Release(ctx, live.Claim.Claim); err != nil {
		t.Error(err)
	}
	n.client.Del(ctx, live.lock)
}

// A claim to whose channel nobody listens does not let the name go to an older one: it would not be told when it has it again.
func TestDeafClaimDoesNotYield(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	n.opts.ByAge = true
	ctx := within(t, 20*time.Second)
	holder, older := n.exclusive(t.Name()), n.exclusive(t.Name())
	holder.TTL = 10 * time.Minute
	_, err := n.Acquire(ctx, holder, Try)
	must(t, err)
	older.Since -= time.Minute.Microseconds()
	n.waits(t, older)
	holder.channel = "locker:wake:nobody"
	if v := n.askAs(t, holder, n.Time()+time.Minute.Microseconds(), Yield); v != -3 {
		t.Errorf("it was answered %d", v)
	}
	if all, err := n.Look(ctx, t.Name()); err != nil || len(all) != 2 || all[0].ID != holder.ID || !all[0].Held || all[1].Held {
		t.Errorf("%+v, %v", all, err)
	}
	must(t, n.Release(ctx, holder.Claim))
	must(t, n.Release(ctx, older.Claim))
}

// News of its own grant that comes after the release of a claim does not free the name while that stays taken. The claim is
// remembered for no longer.
func TestLateGrantWhileLingering(t *testing.T) {
	n := open(t, connect(t, servers.SharedRedis(t).Addr()))
	ctx := within(t, time.Minute)
	lingers, over := n.exclusive(t.Name()), n.exclusive(t.Name()+" over")
	for c, d := range map[*Claim]time.Duration{lingers: 10 * time.Minute, over: time.Millisecond} {
		n.Join(c, func(Answer) {})
		a, err := n.Acquire(ctx, c, Try) // it does not subscribe: what works in the background ends
		must(t, err)
		n.Leave(c)
		must(t, n.Linger(ctx, c.Claim, d))
		n.hear(fmt.Sprintf("granted %s %d 0 %d %s", c.ID, a.Token, a.Now, c.lock))
	}
	locktest.Receive(t, "the end of what that began", n.working.None(), time.Minute)
	if record := n.client.Get(ctx, lingers.lock).Val(); !strings.HasPrefix(record, "1 "+lingers.ID) {
		t.Errorf("the record is %q", record)
	}
	n.client.Del(ctx, lingers.lock)
	eventually.Is(t, "one is forgotten", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.waited[lingers.ID] != nil && n.waited[over.ID] == nil
	})
}

// A waiter is told by whoever releases the name, also where one of the clients is that of a Cluster and the other is not.
func TestClientsOfTwoKinds(t *testing.T) {
	addr := servers.SharedRedis(t).Addr()
	client := goredis.NewClusterClient(&goredis.ClusterOptions{ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
		return []goredis.ClusterSlot{{End: 16383, Nodes: []goredis.ClusterNode{{Addr: addr}}}}, nil
	}})
	t.Cleanup(func() { _ = client.Close() })
	nodes := [2]*Node{open(t, connect(t, addr)), open(t, client)}
	for i, n := range nodes {
		for _, weight := range []int32{driver.All, 1} { // in fewer steps, and not
			h, w := n.exclusive(fmt.Sprint(t.Name(), i, weight)), nodes[1-i].exclusive(fmt.Sprint(t.Name(), i, weight))
			h.Weight, h.TTL, w.TTL = weight, 10*time.Minute, 10*time.Minute
			n.waits(t, h)
			_, news := nodes[1-i].waits(t, w)
			must(t, n.Release(within(t, time.Minute), h.Claim))
			if a := locktest.Receive(t, "news", news, time.Minute); !a.Granted {
				t.Errorf("told %+v", a)
			}
		}
	}
}
