package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

// requests counts what do costs the server, and waits until it has arrived.
func requests(t *testing.T, z *servers.ZooKeeper, do func()) int64 {
	t.Helper()
	before, err := z.Requests(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	do()
	after, err := z.Requests(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return after - before
}

func TestAloneTakesTwoRequests(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	d := raw(t, []string{z.Addr()}, locker.WithTTL(time.Minute)) // no ping meanwhile
	once := func() {
		c, _ := claim(t, "a")
		take(t, d, c)
		if err := d.Release(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	once()
	if n := requests(t, z, func() {
		for range 10 {
			once()
		}
	}); n != 20 {
		t.Errorf("10 locks took %d requests", n)
	}
}

// A waiter lists the queue when it enters and never again, however many were before
// it, and idles for nothing.
func TestWaiterTakesFourRequests(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	op := console(t, z.Addr())
	const n = 6
	var claims []*driver.Claim
	var grants []chan outcome
	d := raw(t, []string{z.Addr()}, locker.WithTTL(time.Minute))
	first, _ := claim(t, "a")
	take(t, d, first)
	for i := range n {
		c, _ := claim(t, "a")
		claims = append(claims, c)
		grants = append(grants, begin(within(t, time.Minute), d, c))
		op.length("a", i+2)
	}
	// The watches have been set when an answer to a later request has come.
	if err := d.sync(); err != nil {
		t.Fatal(err)
	}
	tokens := int64(0)
	if got := requests(t, z, func() {
		if err := d.Release(context.Background(), first); err != nil {
			t.Fatal(err)
		}
		for i, c := range claims {
			g := await(t, grants[i], "grant").ok(t)
			if g.Token <= tokens {
				t.Errorf("token %d after %d", g.Token, tokens)
			}
			tokens = g.Token
			if err := d.Release(context.Background(), c); err != nil {
				t.Fatal(err)
			}
		}
	}); got != n+1 {
		t.Errorf("%d waiters had their turn with %d requests, want one to release each and one by the first", n, got)
	}
	if w := word(t, z, "wchs"); !strings.Contains(w, "Total watches:0") {
		t.Errorf("watches are left: %s", w)
	}
}

func (d *backend) sync() error {
	w, _ := d.session.now()
	return w.ask(context.Background(), syncCall("/"))
}

func TestTokenIsCzxidAndDataIsOwner(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	c, _ := claim(t, name(t))
	g := take(t, d, c)
	data, stat, err := op.Get(op.nodeOf(c))
	if err != nil {
		t.Fatal(err)
	}
	if g.Token != stat.Czxid || string(data) != "the owner" {
		t.Errorf("token %d, czxid %d, data %q", g.Token, stat.Czxid, data)
	}
	if err := d.Release(context.Background(), c); err != nil {
		t.Error(err)
	}
}

// The predecessor of a waiter goes while the holder stays: with its session, by
// cancellation, or by an operator's hand. The waiter must not take it for a release.
func TestWaiterDoesNotTakeTheEndOfAnotherWaiterForItsTurn(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for how, leave := range map[string]func(*backend, *driver.Claim, context.CancelFunc){
		"session":   func(d *backend, _ *driver.Claim, _ context.CancelFunc) { closing(t, d.Close) },
		"operator":  func(_ *backend, c *driver.Claim, _ context.CancelFunc) { op.delete(op.nodeOf(c)) },
		"cancelled": func(d *backend, c *driver.Claim, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(how, func(t *testing.T) {
			n := name(t)
			holder, last := raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()})
			middle, _, err := connect(within(t, 30*time.Second), []string{z.Addr()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			h, _ := claim(t, n)
			take(t, holder, h)
			ctx, cancel := context.WithCancel(within(t, time.Minute))
			m, _ := claim(t, n)
			gone := begin(ctx, middle, m)
			op.length(n, 2)
			l, _ := claim(t, n)
			turn := begin(within(t, time.Minute), last, l)
			op.length(n, 3)
			if err := last.sync(); err != nil {
				t.Fatal(err)
			}
			leave(middle, m, cancel)
			if how == "cancelled" {
				<-gone
				if err := middle.Abandon(within(t, time.Minute), m); err != nil {
					t.Fatal(err)
				}
			}
			if how != "operator" { // then it queues anew, behind
				op.length(n, 2)
				cancel()
				_ = middle.Close(within(t, 5*time.Second))
			} else {
				op.queue(n, func(all []string) bool {
					own := lineUp(all, m.ID)
					return len(all) == 3 && own.ahead != "" && strings.HasPrefix(own.ahead, l.ID)
				})
			}
			for range 2 { // what the waiter asks after the news has been answered after this
				if err := last.sync(); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case o := <-turn:
				t.Fatalf("granted while another holds: %+v", o)
			default:
			}
			if err := holder.Release(within(t, time.Minute), h); err != nil {
				t.Fatal(err)
			}
			await(t, turn, "grant").ok(t)
			if err := last.Release(within(t, time.Minute), l); err != nil {
				t.Error(err)
			}
			if how == "operator" {
				await(t, gone, "grant of the one whose node was deleted").ok(t)
				cancel()
				_ = middle.Close(within(t, 5*time.Second))
			}
			op.length(n, 0)
		})
	}
}

// A waiter whose node was deleted queues anew, and what its predecessor then says is
// not for it any more.
func TestWaiterWhoseNodeIsDeletedQueuesAnew(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	a, b, c := raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()})
	n := name(t)
	ca, _ := claim(t, n)
	take(t, a, ca)
	cb, _ := claim(t, n)
	turnB := begin(within(t, time.Minute), b, cb)
	old := op.nodeOf(cb)
	cc, _ := claim(t, n)
	turnC := begin(within(t, time.Minute), c, cc)
	op.length(n, 3)
	op.delete(old)
	op.queue(n, func(all []string) bool { // a, c, b
		own := lineUp(all, cb.ID)
		return len(all) == 3 && strings.HasPrefix(own.ahead, cc.ID)
	})
	if err := a.Release(within(t, time.Minute), ca); err != nil {
		t.Fatal(err)
	}
	first := await(t, turnC, "grant").ok(t)
	select {
	case o := <-turnB:
		t.Fatalf("two hold: %+v", o)
	default:
	}
	if err := c.Release(within(t, time.Minute), cc); err != nil {
		t.Fatal(err)
	}
	if second := await(t, turnB, "grant").ok(t); second.Token <= first.Token {
		t.Errorf("tokens %d, %d", first.Token, second.Token)
	}
	if err := b.Release(within(t, time.Minute), cb); err != nil {
		t.Error(err)
	}
	op.length(n, 0)
}

// An operator who writes to nodes must neither wake a waiter into a grant nor cost
// it its watches.
func TestWritingToNodesIsNoNews(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	a, b := raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()})
	n := name(t)
	ca, _ := claim(t, n)
	take(t, a, ca)
	cb, _ := claim(t, n)
	turn := begin(within(t, time.Minute), b, cb)
	own := op.nodeOf(cb)
	if err := b.sync(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, path := range []string{own, op.nodeOf(ca)} {
			if _, err := op.Set(path, []byte("x"), -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.sync(); err != nil {
		t.Fatal(err)
	}
	select {
	case o := <-turn:
		t.Fatalf("granted: %+v", o)
	default:
	}
	if err := a.Release(within(t, time.Minute), ca); err != nil {
		t.Fatal(err)
	}
	await(t, turn, "grant").ok(t)
	op.delete(own)
	if err := b.Release(within(t, time.Minute), cb); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release after the node was deleted: %v", err)
	}
}

func TestHolderWhoseNodeIsDeletedIsTold(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for _, lease := range []bool{false, true} {
		l := open(t, []string{z.Addr()})
		var opts []locker.AcquireOption
		if lease {
			opts = append(opts, locker.WithLease(10*time.Second))
		}
		n := name(t)
		lock, err := l.Acquire(within(t, time.Minute), n, opts...)
		if err != nil {
			t.Fatal(err)
		}
		path := queuePath(folder, n)
		op.delete(path + "/" + op.length(n, 1)[0])
		select {
		case <-lock.Context().Done():
		case <-time.After(5 * time.Second): // a second is promised
			t.Fatalf("lease %v: not told", lease)
		}
		if err := lock.Release(context.Background()); !errors.Is(err, locker.ErrLost) {
			t.Errorf("lease %v: release: %v", lease, err)
		}
	}
}

func TestForeignChildrenAreNobodysAffair(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	c, _ := claim(t, n)
	take(t, d, c)
	if err := d.Release(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	path := queuePath(folder, n)
	for _, child := range []string{"_c_", "_c_short", "lock-", "lock-0000000000", "x", someID, someID + "-lock-x", someID + "-lock-99999999999"} {
		op.plant(path + "/" + child)
	}
	for _, wait := range []bool{true, false} {
		c, _ := claim(t, n)
		c.Wait = wait
		take(t, d, c)
		if err := d.Release(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// The numbers of nodes go on at the least after the greatest. The first node is the
// operator's, the others are made for claims that then find them as their own.
func TestOrderIsKeptWhenNumbersWrap(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	n := name(t)
	path := queuePath(folder, n)
	for _, p := range []string{folder, path} {
		if _, err := op.Create(p, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			t.Fatal(err)
		}
	}
	head := path + "/" + someID + "-lock-2147483646"
	op.plant(head)
	var turns []chan outcome
	var claims []*driver.Claim
	var all []*backend
	for _, seq := range []string{"2147483647", "-2147483648", "-2147483647"} {
		d := raw(t, []string{z.Addr()})
		c, _ := claim(t, n)
		w, _ := d.session.now()
		create := newCall(opCreate)
		create.req.create(path+"/"+c.ID+mark+seq, "", d.acl, zk.FlagEphemeral)
		if err := w.ask(within(t, time.Minute), create); err != nil || create.err != nil {
			t.Fatal(err, create.err)
		}
		p := newPlace(c, d.base)
		c.State = p
		p.asked, p.doubt = true, true
		turn := make(chan outcome, 1)
		go func() {
			g, err := d.try(context.Background(), w, p)
			turn <- outcome{g, err}
		}()
		turns, claims, all = append(turns, turn), append(claims, c), append(all, d)
	}
	for _, d := range all {
		for range 3 {
			if err := d.sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	op.delete(head)
	for i, turn := range turns {
		await(t, turn, "grant").ok(t)
		for _, later := range turns[i+1:] {
			select {
			case o := <-later:
				t.Fatalf("out of order: %+v", o)
			default:
			}
		}
		if err := all[i].Release(within(t, time.Minute), claims[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// The servers remove empty queues; sequence numbers start again, tokens do not.
func TestQueuesAreReaped(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{Properties: map[string]string{"znode.container.checkIntervalMs": "300"}})
	op := console(t, z.Addr())
	d := raw(t, []string{z.Addr()})
	token := int64(0)
	for range 3 {
		c, _ := claim(t, "a")
		if g := take(t, d, c); g.Token <= token {
			t.Errorf("token %d after %d", g.Token, token)
		} else {
			token = g.Token
		}
		if err := d.Release(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		op.gone(folder + "/a")
	}
	if w := word(t, z, "wchs"); !strings.Contains(w, "Total watches:0") {
		t.Errorf("watches are left: %s", w)
	}
}

func (o operator) gone(path string) {
	o.t.Helper()
	for {
		there, _, changed, err := o.ExistsW(path)
		if err != nil {
			o.t.Fatal(err)
		}
		if !there {
			// That watch is not wanted: it ends with a node that is made and deleted.
			o.plant(path)
			o.delete(path)
			return
		}
		await(o.t, changed, path+" to be deleted")
	}
}

func TestManyNamesLeaveNothing(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{Properties: map[string]string{
		"znode.container.checkIntervalMs": "300", "znode.container.maxPerMinute": "10000000",
	}})
	l, d := both(t, []string{z.Addr()})
	nodes := func() int {
		fields, err := z.Status(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(fields["Node count"])
		return n
	}
	lock, err := l.Acquire(within(t, time.Minute), "first")
	if err != nil {
		t.Fatal(err)
	}
	before, goroutines := nodes(), runtime.NumGoroutine()
	var wg sync.WaitGroup
	const names, workers = 3000, 30
	for w := range workers {
		wg.Go(func() {
			for i := range names / workers {
				lock, err := l.Acquire(within(t, time.Minute), fmt.Sprintf("used once: %d %d", w, i))
				if err == nil {
					err = lock.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	once(t, "the queues to be reaped", func() bool { return nodes() <= before })
	if w := word(t, z, "wchs"); !strings.Contains(w, "Total watches:1") && !strings.Contains(w, "Total watches:0") { // that of the lock held
		t.Errorf("watches are left: %s", w)
	}
	w, _ := d.session.now()
	w.mu.Lock()
	if n := len(w.watchers); n > 1 {
		t.Errorf("%d watchers are left", n)
	}
	w.mu.Unlock()
	// Other tests run at the same time, so only many count.
	if n := runtime.NumGoroutine() - goroutines; n > names/2 {
		t.Errorf("%d more goroutines", n)
	}
	if err := lock.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// Somebody deletes the queue again and again, as a server does that reaps too eagerly.
func TestQueueDeletedInALoop(t *testing.T) {
	t.Parallel()
	z := servers.SharedZooKeeper(t)
	op, d := console(t, z.Addr()), raw(t, []string{z.Addr()})
	n := name(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = op.Delete(queuePath(folder, n), -1)
			}
		}
	}()
	token := int64(0)
	for range 200 {
		c, _ := claim(t, n)
		if g := take(t, d, c); g.Token <= token {
			t.Fatalf("token %d after %d", g.Token, token)
		} else {
			token = g.Token
		}
		if err := d.Release(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
}

// The operator deletes the queue with all that is in it.
func TestQueueDeletedWithAllInIt(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	a, b := raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()})
	n := name(t)
	ca, _ := claim(t, n)
	take(t, a, ca)
	cb, _ := claim(t, n)
	turn := begin(within(t, time.Minute), b, cb)
	first, second := op.nodeOf(ca), op.nodeOf(cb)
	op.delete(second)
	op.length(n, 2) // it came again
	second = op.nodeOf(cb)
	if _, err := op.Multi(&zk.DeleteRequest{Path: second, Version: -1}, &zk.DeleteRequest{Path: first, Version: -1}, &zk.DeleteRequest{Path: queuePath(folder, n), Version: -1}); err != nil {
		t.Fatal(err)
	}
	await(t, turn, "grant").ok(t)
	if err := a.Release(within(t, time.Minute), ca); !errors.Is(err, driver.ErrGone) {
		t.Errorf("release: %v", err)
	}
	if err := b.Release(within(t, time.Minute), cb); err != nil {
		t.Errorf("release: %v", err)
	}
}

func TestTryOfTakenNameWritesNothing(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	a, b := raw(t, []string{z.Addr()}), raw(t, []string{z.Addr()})
	n := name(t)
	ca, _ := claim(t, n)
	take(t, a, ca)
	_, before, err := op.Exists(queuePath(folder, n))
	if err != nil {
		t.Fatal(err)
	}
	cb, _ := claim(t, n)
	cb.Wait = false
	if _, err := b.Acquire(within(t, time.Minute), cb); !errors.Is(err, driver.ErrTaken) {
		t.Errorf("try: %v", err)
	}
	_, after, err := op.Exists(queuePath(folder, n))
	if err != nil || after.Cversion != before.Cversion {
		t.Errorf("the queue changed: %d, %d, %v", before.Cversion, after.Cversion, err)
	}
}
