package zookeeper

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// waiting begins to wait, and returns when the claim is in the queue.
func waiting(t testing.TB, op operator, d *backend, c *driver.Claim) chan outcome {
	t.Helper()
	done := begin(within(t, time.Minute), d, c)
	op.nodeOf(c)
	return done
}

// stillWaits asserts that a claim is not granted, as far as its client has heard.
func stillWaits(t testing.TB, done chan outcome, d *backend) {
	t.Helper()
	for range 3 { // what follows from the news has been answered after that
		if _, err := d.session.conn.Sync("/"); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case o := <-done:
		t.Fatalf("granted too early: %+v", o)
	default:
	}
}

func TestReadersHoldTogetherAndNobodyIsOvertaken(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, a, b := console(t, z.Addr()), raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()})
	n := name(t)
	first, second := shared(t, n), shared(t, n)
	take(t, a, first)
	take(t, b, second)
	w := exclusive(t, n)
	writer := waiting(t, op, a, w)
	r := shared(t, n)
	reader := waiting(t, op, b, r)
	taken(t, b, shared(t, n))
	release(t, a, first)
	stillWaits(t, writer, a)
	stillWaits(t, reader, b)
	release(t, b, second)
	await(t, writer, "the writer's turn").ok(t)
	stillWaits(t, reader, b)
	release(t, a, w)
	await(t, reader, "the reader's turn").ok(t)
	release(t, b, r)
	op.length(n, 0)
}

// Ten hold, and whichever of them goes first lets the first waiter in; the one behind that learns
// when it is the first to wait.
func TestPermits(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	var held []*driver.Claim
	for range 10 {
		c := kind(t, n, 1, 10)
		take(t, d, c)
		held = append(held, c)
	}
	taken(t, d, kind(t, n, 1, 10))
	var queue []*driver.Claim
	var turns []chan outcome
	for range 6 {
		c := kind(t, n, 1, 10)
		queue = append(queue, c)
		turns = append(turns, waiting(t, op, d, c))
	}
	big := kind(t, n, 9, 10)
	last := waiting(t, op, d, big)
	for i, j := range []int{3, 9, 0, 5, 7, 1} { // any order
		release(t, d, held[j])
		await(t, turns[i], "a turn").ok(t)
		if i+1 < len(turns) {
			stillWaits(t, turns[i+1], d)
		}
	}
	for i, c := range append(queue, held[2], held[4]) {
		release(t, d, c)
		if i < 7 {
			stillWaits(t, last, d)
		}
	}
	release(t, d, held[6])
	await(t, last, "the turn of nine").ok(t) // beside one
	take(t, d, trying(kind(t, n, 1, 100)))   // who allows more
	taken(t, d, kind(t, n, 1, 10))
}

// Behind one who holds all permits the first to wait watches it, and each other the one ahead: the release wakes one.
func TestReleaseOfAllPermitsWakesNoHerd(t *testing.T) {
	beside(t)
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	const waiters, permits = 12, 3
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	h := kind(t, "a", permits, permits)
	take(t, d, h)
	var turns []chan outcome
	for i := range waiters { // each in a session of its own, which the server counts watches by
		turns = append(turns, begin(within(t, time.Minute), raw(t, []string{z.Addr()}), kind(t, "a", 1, permits)))
		op.length("a", i+2)
	}
	var watched map[string]int
	eventually.Is(t, "everybody to watch", func() bool {
		watched = watchers(t, z)
		return len(watched) >= waiters || watched[op.nodeOf(h)] == waiters
	})
	if n := watched[op.nodeOf(h)]; n != 1 {
		t.Errorf("%d watch the holder", n)
	}
	release(t, d, h)
	for _, turn := range turns[:permits] {
		await(t, turn, "a turn").ok(t)
	}
	stillWaits(t, turns[permits], d)
}

// watchers returns how many sessions watch each path.
func watchers(t *testing.T, z *servers.ZooKeeper) map[string]int {
	t.Helper()
	watched, path := make(map[string]int), ""
	for line := range strings.Lines(word(t, z, "wchp")) {
		switch line = strings.TrimRight(line, "\r\n"); {
		case strings.HasPrefix(line, "/"):
			path = line
		case strings.HasPrefix(line, "\t0x"):
			watched[path]++
		}
	}
	return watched
}

func TestLighten(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	h := exclusive(t, n)
	take(t, d, h)
	r1, w, r2 := shared(t, n), exclusive(t, n), shared(t, n)
	one, two, three := waiting(t, op, d, r1), waiting(t, op, d, w), waiting(t, op, d, r2)
	for range 2 { // again is harmless
		if err := d.Lighten(within(t, time.Minute), h, 1); err != nil {
			t.Fatal(err)
		}
	}
	await(t, one, "the reader behind").ok(t)
	stillWaits(t, two, d)
	release(t, d, r1)
	stillWaits(t, two, d)
	if err := renewed(t, d, h); err != nil {
		t.Errorf("renew: %v", err)
	}
	release(t, d, h)
	await(t, two, "the writer").ok(t)
	stillWaits(t, three, d)
	release(t, d, w)
	await(t, three, "the reader behind it").ok(t)
	release(t, d, r2)
	op.length(n, 0)

	// Who comes when it is lighter already sees that.
	h = exclusive(t, n)
	take(t, d, h)
	if err := d.Lighten(within(t, time.Minute), h, 1); err != nil {
		t.Fatal(err)
	}
	r := shared(t, n)
	take(t, d, trying(r))
	taken(t, d, exclusive(t, n))
	release(t, d, h)
	release(t, d, r)
	op.length(n, 0)
}

// A permit holder that becomes lighter wakes the first who waits, which watches the queue.
func TestLightenPermits(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	h, other := kind(t, n, 5, 10), kind(t, n, 4, 10)
	take(t, d, h)
	take(t, d, other)
	c := kind(t, n, 3, 10)
	turn := waiting(t, op, d, c)
	stillWaits(t, turn, d)
	if err := d.Lighten(within(t, time.Minute), h, 3); err != nil {
		t.Fatal(err)
	}
	await(t, turn, "the turn").ok(t)
}

// What a later version or somebody else puts into a queue stands in it.
func TestNodesOfUnknownFormStandInTheQueue(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	const id = "0123456789abcdef0123456789abcdef"
	for _, child := range []string{"x", "_c_", "_c_short", "lock-", "lock-0000000000", id, id + "-2-all-all-0-0-0000000000", id + "-1-all-0000000000", id + "-1-all-all-0000000000",
		id + "-1-0-10-0-0-0000000000", id + "-1-11-10-0-0-0000000000", id + "-1-1-10-x-0-0000000000", id + "-1-1-10-0-x-0000000000", id + "-lock-99999999999"} {
		n := name(t)
		c := exclusive(t, n)
		take(t, d, c)
		release(t, d, c)
		node := queuePath(folder, n) + "/" + child
		op.plant(node)
		taken(t, d, shared(t, n))
		c = shared(t, n)
		turn := waiting(t, op, d, c)
		stillWaits(t, turn, d)
		all, err := d.Look(within(t, time.Minute), n)
		if err != nil || len(all) != 2 || !all[0].Held || all[0].ID != child || all[1].Held {
			t.Fatalf("%s: look: %+v, %v", child, all, err)
		}
		if err := d.Evict(within(t, time.Minute), n, child); err != nil {
			t.Fatal(err)
		}
		await(t, turn, "the turn after "+child).ok(t)
		release(t, d, c)
	}
	// Behind, it is in nobody's way.
	n := name(t)
	c := exclusive(t, n)
	take(t, d, c)
	op.plant(queuePath(folder, n) + "/" + id + "-2-all-all-0000000009")
	next := shared(t, n)
	turn := waiting(t, op, d, next)
	release(t, d, c)
	await(t, turn, "the turn").ok(t)
}

func TestSpareTokens(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	d := raw(t, []string{z.Addr()})
	n := name(t)
	last := int64(0)
	for _, want := range []int32{0, 7, 1023, 5000} {
		c := exclusive(t, n)
		c.Spare = want
		g := take(t, d, c)
		if g.Spare != int64(min(want, 1023)) || g.Token <= last {
			t.Errorf("asked for %d: %+v after %d", want, g, last)
		}
		last = g.Token + g.Spare
		release(t, d, c)
	}
}

// A czxid of more than 53 bits has no room for the core's part of a token.
func TestTokensThatAreUsedUp(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	d := raw(t, []string{z.Addr()})
	st := &claimState{claim: exclusive(t, name(t)), session: d.sessionID(), czxid: maxCzxid}
	if g, err := d.grant(st); err != nil || g.Token+1<<spareBits-1 != 1<<63-1 {
		t.Errorf("the last: %+v, %v", g, err)
	}
	st.czxid++
	if _, err := d.grant(st); err == nil {
		t.Error("one beyond the last was granted")
	}
}

func TestLinger(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	const long = 1500 * time.Millisecond
	n := name(t)
	h := exclusive(t, n)
	g := take(t, d, h)
	c := exclusive(t, n)
	turn := waiting(t, op, d, c)
	asked := time.Now()
	if err := d.Linger(within(t, time.Minute), h, long); err != nil {
		t.Fatal(err)
	}
	taken(t, d, shared(t, n))
	all, err := d.Look(within(t, time.Minute), n)
	if err != nil || len(all) != 2 || !all[0].Held || all[0].ID != h.ID || all[0].Token != g.Token || all[0].Owner != h.Owner || all[0].Left <= 0 || all[0].Left > long || all[1].Held {
		t.Errorf("look: %+v, %v", all, err)
	}
	next := await(t, turn, "the turn").ok(t)
	if took := time.Since(asked); took < long || next.Token <= g.Token {
		t.Errorf("granted after %v, tokens %d %d", took, g.Token, next.Token)
	}
	release(t, d, c)
	op.length(n, 0)
}

// The process that made it lives no longer: who waits and who tries find the time over, and a
// client that knows no server's time yet does, too.
func TestLingerOfOneThatIsGone(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	linger := func(n string, d time.Duration) {
		a, _, err := connect(within(t, 30*time.Second), []string{z.Addr()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := exclusive(t, n)
		take(t, a, c)
		if err := a.Linger(within(t, time.Minute), c, d); err != nil {
			t.Fatal(err)
		}
		closing(t, a.Close)
		op.length(n, 1)
	}
	n := name(t)
	linger(n, time.Hour)
	taken(t, raw(t, []string{z.Addr()}), exclusive(t, n)) // which finds nobody's time over
	op.length(n, 1)

	n = name(t)
	linger(n, time.Second)
	b := raw(t, []string{z.Addr()})
	c := exclusive(t, n)
	take(t, b, c)
	release(t, b, c)

	n = name(t)
	linger(n, time.Millisecond)
	c = exclusive(t, n)
	eventually.Is(t, "a try to find the time over", func() bool {
		c = trying(exclusive(t, n))
		_, err := raw(t, []string{z.Addr()}).Acquire(within(t, time.Minute), c)
		return err == nil
	})
}

func TestLingerWhoseReplyIsLost(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, p := console(t, z.Addr()), inFront(t, z.Addr())
	d := raw(t, []string{p.Addr()})
	c := exclusive(t, name(t))
	take(t, d, c)
	p.SwallowReply(carries(opMulti), 0)
	if err := d.Linger(within(t, time.Minute), c, time.Hour); err == nil {
		t.Fatal("linger without a reply")
	}
	if err := d.Linger(within(t, time.Minute), c, time.Hour); err != nil {
		t.Fatalf("linger again: %v", err)
	}
	op.length(c.Name, 1)
	if err := d.Evict(within(t, time.Minute), c.Name, c.ID); err != nil {
		t.Fatal(err)
	}
	op.length(c.Name, 0)
}

func TestLookNamesEvict(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t) + " / ä"
	if all, err := d.Look(within(t, time.Minute), n); err != nil || len(all) != 0 {
		t.Fatalf("look at a name never used: %v, %v", all, err)
	}
	h, w := kind(t, n, 2, 3), kind(t, n, 3, 3)
	start := time.Now().Add(-time.Minute)
	g := take(t, d, h)
	turn := waiting(t, op, d, w)
	all, err := d.Look(within(t, time.Minute), n)
	if err != nil || len(all) != 2 {
		t.Fatalf("look: %+v, %v", all, err)
	}
	for i, c := range []*driver.Claim{h, w} {
		p := all[i]
		if p.ID != c.ID || p.Name != n || p.Owner != c.Owner || p.Weight != c.Weight || p.Limit != c.Limit || p.Held != (i == 0) || p.Since.Before(start) {
			t.Errorf("position %d: %+v", i, p)
		}
	}
	if all[0].Token != g.Token || all[1].Token != 0 {
		t.Errorf("tokens: %+v", all)
	}
	var names []string
	for one, err := range d.Names(within(t, time.Minute), n[:len(n)-1]) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, one)
	}
	if len(names) != 1 || names[0] != n {
		t.Errorf("names: %q", names)
	}
	if err := d.Evict(within(t, time.Minute), n, w.ID[:31]+"x"); !errors.Is(err, driver.ErrGone) {
		t.Errorf("evict nobody: %v", err)
	}
	if err := renewed(t, d, h); err != nil {
		t.Fatal(err)
	}
	if err := d.Evict(within(t, time.Minute), n, h.ID); err != nil {
		t.Fatal(err)
	}
	await(t, turn, "the turn").ok(t)
	eventually.Is(t, "the holder to be told", func() bool { return renewed(t, d, h) != nil })
	release(t, d, w)
	for one := range d.Names(within(t, time.Minute), n) {
		t.Errorf("%q is not held any more", one)
	}
}

// Owners may be any bytes, and writing to nodes is no news to anybody.
func TestWritingToNodesIsNoNews(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	a, b := exclusive(t, n), exclusive(t, n)
	take(t, d, a)
	turn := waiting(t, op, d, b)
	for range 3 {
		for _, c := range []*driver.Claim{a, b} {
			if _, err := op.Set(op.nodeOf(c), []byte("x"), -1); err != nil {
				t.Fatal(err)
			}
		}
		stillWaits(t, turn, d)
		if err := renewed(t, d, a); err != nil {
			t.Errorf("renew: %v", err)
		}
	}
	release(t, d, a)
	await(t, turn, "the turn").ok(t)
	op.delete(op.nodeOf(b))
	if err := d.Release(within(t, time.Minute), b); err == nil {
		t.Error("released a node that was deleted")
	}
}

// The answer to a request to become lighter is lost: whatever is asked for next finds out what came of it.
func TestLightenWhoseReplyIsLost(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, p := console(t, z.Addr()), inFront(t, z.Addr())
	d, other := raw(t, []string{p.Addr()}), raw(t, []string{z.Addr()})
	ctx := within(t, time.Minute)
	for what, end := range map[string]func(c *driver.Claim) error{
		"again":   func(c *driver.Claim) error { return d.Lighten(ctx, c, 1) },
		"release": func(c *driver.Claim) error { return d.Release(ctx, c) },
		"linger":  func(c *driver.Claim) error { return d.Linger(ctx, c, time.Millisecond) },
		"abandon": func(c *driver.Claim) error { return d.Abandon(ctx, c) },
	} {
		c := exclusive(t, name(t))
		g := take(t, d, c)
		p.SwallowReply(carries(opMulti), 0)
		if err := d.Lighten(ctx, c, 1); err == nil {
			t.Fatal("lighten without a reply")
		}
		if err := renewed(t, d, c); err != nil {
			t.Errorf("%s: renew: %v", what, err)
		}
		if err := end(c); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if what == "again" {
			r := shared(t, c.Name)
			take(t, other, r)
			all, err := d.Look(ctx, c.Name)
			if err != nil || len(all) != 2 || !all[0].Held || all[0].Token != g.Token || all[0].Weight != 1 || all[0].Owner != c.Owner {
				t.Errorf("look: %+v, %v", all, err)
			}
			release(t, d, c)
			release(t, other, r)
		}
		op.length(c.Name, 0)
	}
}
