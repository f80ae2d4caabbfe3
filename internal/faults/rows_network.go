package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/lateness"
	"github.com/seed80cd6120/locker/internal/proxy"
)

// What can happen to the network between a user and the servers.
var networkRows = []Row{
	{Number: 3, Shows: []int{1, 3}, Name: "cut-off", Quick: true, Run: func(x *Exam) { cutOff(x, (*Network).Freeze, false) },
		See: "lost before the next holder is granted the lock"},
	{Number: 3, Shows: []int{1, 3}, Name: "many-cut-off", Run: manyCutOff,
		See: "the same for twelve holders, each cut off at another point between two renewals"},
	{Number: 4, Shows: []int{3}, Name: "replies-lost", Quick: true, Run: func(x *Exam) { cutOff(x, (*Network).FreezeDown, true) },
		See: "lost at the holder's own deadline"},
	{Number: 5, Shows: []int{3}, Name: "requests-lost", Run: func(x *Exam) { cutOff(x, (*Network).FreezeUp, false) },
		See: "lost at the holder's own deadline"},
	{Number: 6, Shows: []int{5}, Name: "acquired-unheard", Quick: true, Run: acquiredUnheard,
		See: "the error of the ctx; nothing stays; the next acquires at once"},
	{Number: 7, Shows: []int{5}, Name: "acquired-unheard-recovery-cut", Run: recoveryCut,
		See: "what was left goes as soon as the server can be reached"},
	{Number: 9, Shows: []int{6}, Name: "waiting-out-of-reach", Run: waitingOutOfReach,
		See: "a wait returns by its ctx"},
	{Number: 13, Shows: []int{3}, Name: "partition-3s", For: []string{zooKeeperFamily}, Run: func(x *Exam) {
		x.Access.TTL = 4500 * time.Millisecond // of which a session is two thirds
		cutOff(x, (*Network).Freeze, false)
	}, See: "lost before the next holder is granted the lock"},
	{Number: 17, Shows: []int{8}, Name: "release-before-watch", Run: releaseBeforeWatch,
		See: "no waiter misses a release, whenever it comes"},
	{Number: 41, Shows: []int{12, 14}, Name: "cut-every-50ms", Quick: true, Run: cutOften,
		See: "work goes on"},
}

// The holder is cut off while another waits. heard: the servers still hear of it.
func cutOff(x *Exam, freeze func(n *Network), heard bool) {
	two := x.holderAndWaiter(30 * time.Second)
	var frozen time.Time
	x.Did("freeze A", false, "", func() error { frozen = time.Now(); freeze(two.a.net); return nil })
	x.Told(two.held, time.Until(frozen.Add(x.Access.TTL+noise)))
	g, free := lateness.Receive(x.Ctx, pulse, two.wait, time.Until(frozen.Add(x.Access.TTL+time.Second+noise)))
	x.Must(g.Err)
	hb := g.Holding
	if !free {
		if !heard {
			x.unlessLate(frozen, "the next holder does not have the lock %v after the holder was cut off", time.Since(frozen))
		}
		// The server still hears of the holder, who knows that the lock is lost but cannot
		// know that it could be given back.
		x.Logf("the lock was not free before the network was healed")
		two.a.net.Heal()
		hb = x.Get(two.wait)
	}
	_ = hb.Work()
	write := two.held.Work()
	two.a.net.Heal()
	x.tooLate(write, two.held.Release(x.Within(10*time.Second)))
	x.StillHolds(hb, "the second holder")
	x.Released(hb)
}

// Many holders are cut off while others wait. How late or early they are told ends in the
// table of a run.
func manyCutOff(x *Exam) {
	const n = 12
	var cut []*Network
	var waits []<-chan Got
	for range n {
		two := x.holderAndWaiter(2 * time.Minute)
		waits, cut = append(waits, two.wait), append(cut, two.a.net)
	}
	for _, net := range cut {
		net.Freeze()
		time.Sleep(x.Backend.TTL / 3 / n) // at every point between two renewals
	}
	for _, w := range waits {
		x.Released(x.Get(w))
	}
}

// long is a TTL that does not end while one looks whether something was cleaned up
// before.
const long = 15 * time.Second

// outlasting is the TTL of a lock that does not end before another server has taken the master's place: Sentinels take their time.
func (x *Exam) outlasting() time.Duration {
	if x.Sentinel != nil {
		return time.Minute
	}
	return long
}

// Warm has a player take and give back some lock, so that it is connected.
func (x *Exam) Warm(players ...*Player) {
	x.Helper()
	for _, p := range players {
		x.Released(x.Acquired(p, x.Lock(), 10*time.Second))
	}
}

// mustEndByCtx asserts that an acquisition failed because of its ctx, by its end.
func (x *Exam) mustEndByCtx(p *Player, name string, within time.Duration) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Ctx, within)
	defer cancel()
	start := time.Now()
	h, err := p.Acquire(ctx, name)
	x.Soon("acquire", start, within)
	switch {
	case err == nil:
		x.Errorf("acquire succeeded, with the servers out of reach")
		_ = h.Release(x.Ctx)
	case !errors.Is(err, context.DeadlineExceeded):
		x.Errorf("acquire: %v, want the error of the ctx", err)
	}
}

// AtOnce asserts that nothing of another's acquisition is in the way.
func (x *Exam) AtOnce(p *Player, name string, within time.Duration) {
	x.Helper()
	start := time.Now()
	h := x.Acquired(p, name, 20*time.Second)
	x.InTime("the next acquisition, if nothing of the one before was left,", start, within)
	x.Released(h)
}

// An acquisition arrives at the server, but the reply does not come back before the ctx
// is over.
func acquiredUnheard(x *Exam) {
	const within = 4 * time.Second
	x.Access.TTL = long
	name, a, b := x.pair()
	x.Warm(a, b)
	a.net.FreezeDown()
	x.mustEndByCtx(a, name, 700*time.Millisecond)
	a.net.Heal()
	x.AtOnce(b, name, within)
	x.AtOnce(a, name, within)
}

// The same, but what is to undo it fails at least once, and connections are cut for three seconds more.
func recoveryCut(x *Exam) {
	const within = 6 * time.Second
	x.Access.TTL = time.Minute // it does not end by itself
	name := x.Lock()
	b, _ := x.Player("B")
	var said eventually.Output
	x.Access.logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a, net := x.Player("A")
	x.Warm(a)
	x.Released(x.Acquired(b, name, 10*time.Second)) // so that all that a queue needs is there, and one request makes A the holder

	net.FreezeDown()
	ctx, cancel := context.WithCancel(x.Ctx)
	defer cancel()
	refused := make(chan error, 1)
	go func() {
		h, err := a.Acquire(ctx, name)
		if err == nil {
			_ = h.Release(x.Ctx)
		}
		refused <- err
	}()
	time.Sleep(700 * time.Millisecond) // in which the request arrives
	ours := a.Locker() != nil
	if h, err := b.Try(x.Within(10*time.Second), name); err == nil {
		x.Released(h)
		if ours {
			x.again("the request of " + a.Name + " has not arrived")
		}
	}
	net.Freeze() // what is to undo it does not arrive
	cancelled := time.Now()
	cancel()
	err, ended := lateness.Receive(x.Ctx, pulse, refused, 15*time.Second)
	if !ended {
		x.Fatalf("an acquisition has not returned 15s after it was cancelled")
	}
	if !errors.Is(err, context.Canceled) {
		x.Errorf("acquire: %v, want that it was cancelled", err)
	}
	x.Soon("acquire", cancelled, 0)
	net.CutOff() // what was to undo it is gone
	if ours {
		x.Until("it could not be undone", time.Minute, func() bool { return strings.Contains(said.String(), "cleanup will be tried again") })
	}
	net.Heal()
	for range 15 {
		time.Sleep(200 * time.Millisecond)
		net.Cut()
	}
	x.AtOnce(b, name, within)
	x.AtOnce(a, name, within)
}

// Somebody waits, or begins to, while the servers cannot be reached.
func waitingOutOfReach(x *Exam) {
	x.Access.TTL = long
	name, a, b := x.pair()
	x.Warm(a)
	hb := x.Acquired(b, name, 10*time.Second)
	const patience = 5 * time.Second
	began := time.Now()
	wait := x.Waits(a, name, patience)
	a.net.Freeze()
	g, ended := lateness.Receive(x.Ctx, pulse, wait, 15*time.Second)
	if !ended {
		x.Fatalf("a wait of %v has not returned after 15s", patience)
	}
	if !errors.Is(g.Err, context.DeadlineExceeded) {
		x.Errorf("the wait ended with %v, want the error of the ctx", g.Err)
	}
	x.Soon("a wait", began, patience)
	x.mustEndByCtx(a, name, time.Second)
	a.net.Heal()
	x.Released(hb)
	x.AtOnce(b, name, 4*time.Second)
}

// The release comes at every point of the exchange in which the next begins to wait.
func releaseBeforeWatch(x *Exam) {
	x.Access.TTL = long
	_, a, b := x.pair()
	x.Warm(b)
	b.net.Each(func(p *proxy.Proxy) { p.Delay(30*time.Millisecond, 30*time.Millisecond) })
	for i := range 16 {
		name := x.Lock()
		ha := x.Acquired(a, name, 10*time.Second)
		got := x.asks(b, name, 10*time.Second)
		time.Sleep(time.Duration(i) * 20 * time.Millisecond)
		x.Released(ha)
		released := time.Now()
		hb := x.Get(got)
		x.InTime(fmt.Sprintf("to notice a release %d ms after the call", 20*i), released, 3*time.Second)
		x.Released(hb)
	}
}

// All connections are cut again and again under load.
func cutOften(x *Exam) {
	names := []string{x.Lock(), x.Lock()}
	var procs []*Process
	var nets []*Network
	for range 3 {
		p, n := x.Process("A")
		procs, nets = append(procs, p), append(nets, n)
	}
	for i, p := range procs {
		x.load(p, Load{Seed: uint64(i), Names: names, Goroutines: 2, TTL: x.Backend.TTL})
	}
	var wg sync.WaitGroup
	for _, n := range nets {
		wg.Go(func() {
			for start := time.Now(); time.Since(start) < 3*time.Second; n.Cut() {
				time.Sleep(time.Duration(25+rand.IntN(50)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	before := x.acquired(procs)
	x.Until("work goes on", time.Minute, func() bool { return x.acquired(procs) >= before+10 })
	sum := x.unload(procs...)
	x.Logf("%d acquisitions, %d failed", sum.Acquired, sum.Failed)
}
