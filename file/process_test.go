//go:build linux

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
)

// longTTL is a TTL that no test waits for: what is free before is not free because of it.
const longTTL = time.Hour

// hold takes x and keeps it.
func hold(ctx context.Context, dir string) error {
	l, err := New(dir, locker.WithTTL(longTTL))
	if err != nil {
		return err
	}
	lock, err := l.Acquire(ctx, "x")
	if err != nil {
		return err
	}
	fmt.Println("held", lock.Token())
	ended()
	return nil
}

// A holder that is killed frees its name at once, however long its TTL: its process waits in the kernel for nobody.
func TestKilledHolder(t *testing.T) {
	dir := t.TempDir()
	l := newLocker(t, dir, locker.WithTTL(longTTL))
	holder := spawn(t, "hold", dir)
	token, err := strconv.ParseInt(holder.says("held"), 10, 64)
	must(t, err)
	next := begin(t, l, "x", 2)
	died := time.Now()
	_ = holder.cmd.Process.Kill()
	lock := next.Granted(t, time.Minute)
	t.Logf("granted %v after kill -9", time.Since(died))
	if lock.Token() <= token {
		t.Errorf("token %d after %d", lock.Token(), token)
	}
	release(t, lock)
}

// A waiter that is killed is passed over at once.
func TestKilledWaiter(t *testing.T) {
	dir := t.TempDir()
	l, other := newLocker(t, dir, locker.WithTTL(longTTL)), newLocker(t, dir, locker.WithTTL(longTTL))
	first := acquire(t, l, "x")
	waiter := spawn(t, "hold", dir)
	queued(t, l, "x", 2)
	last := begin(t, other, "x", 3)
	_ = waiter.cmd.Process.Kill()
	queued(t, l, "x", 2)
	release(t, first)
	release(t, last.Granted(t, time.Minute))
}

// shortTTL is one that a test waits for.
const shortTTL = 10 * time.Second

// waitForever queues for x, with a short TTL.
func waitForever(ctx context.Context, dir string) error {
	l, err := New(dir, locker.WithTTL(shortTTL))
	if err != nil {
		return err
	}
	fmt.Println("waits")
	lock, err := l.Acquire(ctx, "x")
	if err != nil {
		return err
	}
	fmt.Println("held", lock.Token())
	ended()
	return nil
}

// A process that is stopped while it holds, or while it waits, keeps nobody from the name for longer than its TTL. A
// waiter that goes on queues anew.
func TestStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newLocker(t, dir)
	holder := spawn(t, "wait", dir)
	holder.says("held")
	waiter := spawn(t, "wait", dir)
	queued(t, l, "x", 2)
	for _, p := range []*process{waiter, holder} {
		must(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	}
	stopped := time.Now()
	lock := acquire(t, l, "x")
	t.Logf("granted %v after SIGSTOP, with a TTL of %v", time.Since(stopped), shortTTL)
	must(t, waiter.cmd.Process.Signal(syscall.SIGCONT))
	queued(t, l, "x", 2)
	release(t, lock)
	waiter.says("held")
}

// holdAndStart takes x and starts a program, which outlives it.
func holdAndStart(ctx context.Context, dir string) error {
	l, err := New(dir, locker.WithTTL(longTTL))
	if err != nil {
		return err
	}
	if _, err := l.Acquire(ctx, "x"); err != nil {
		return err
	}
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println("started", child.Process.Pid)
	ended()
	return nil
}

// A program that the holder has started does not keep the lock when the holder is dead.
func TestChildOfHolder(t *testing.T) {
	dir := t.TempDir()
	l := newLocker(t, dir, locker.WithTTL(longTTL))
	holder := spawn(t, "hold and go", dir)
	pid, err := strconv.Atoi(holder.says("started"))
	must(t, err)
	child, err := os.FindProcess(pid)
	must(t, err)
	defer child.Kill()
	next := begin(t, l, "x", 2)
	_ = holder.cmd.Process.Kill()
	lock := next.Granted(t, time.Minute)
	if err := child.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the child is gone: %v", err)
	}
	release(t, lock)
}

// contend takes and releases two names as different kinds, again and again, until it is killed. It says of each holding
// when it had certainly begun and when it had certainly not ended.
func contend(ctx context.Context, dir string) error {
	l, err := New(dir)
	if err != nil {
		return err
	}
	for {
		name := []string{"x", "y"}[rand.IntN(2)]
		kind := []string{"exclusive", "exclusive", "shared"}[rand.IntN(3)]
		var opts []locker.AcquireOption
		if kind == "shared" {
			opts = append(opts, locker.Shared())
		}
		take := l.Acquire
		if rand.IntN(4) == 0 {
			take = l.TryAcquire
		}
		lock, err := take(ctx, name, opts...)
		if errors.Is(err, locker.ErrNotAcquired) {
			continue
		}
		if err != nil {
			return err
		}
		begun := now()
		time.Sleep(rand.N(50 * time.Microsecond))
		fmt.Printf("held %s %s %d %d %d\n", name, kind, lock.Token(), begun, now())
		if err := lock.Release(ctx); err != nil {
			return err
		}
	}
}

// holding is what a process said that was killed later.
type holding struct {
	name, kind        string
	token, begun, end int64
}

// Many processes contend and are killed at random. Their holdings exclude each other, tokens rise, the names can be
// had again at once, and nothing is left.
func TestKilledAtRandom(t *testing.T) {
	const running = 5
	dir := t.TempDir()
	l := newLocker(t, dir, locker.WithTTL(longTTL))
	var all []holding
	kinds := make(map[string]bool) // of the holdings of the processes
	kill := func(p *process) {
		_ = p.cmd.Process.Kill()
		for line := range p.lines {
			var h holding
			n, _ := fmt.Sscanf(line, "held %s %s %d %d %d", &h.name, &h.kind, &h.token, &h.begun, &h.end)
			if n != 5 {
				t.Errorf("a process said %q", line)
			}
			all = append(all, h)
			kinds[h.name+" "+h.kind] = true
		}
	}
	procs := make([]*process, running)
	for i := range procs {
		procs[i] = spawn(t, "contend", dir)
	}
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	for i := 0; i < rounds || len(kinds) < 4 && i < 10*rounds; i++ {
		time.Sleep(rand.N(100 * time.Millisecond))
		kill(procs[i%running])
		procs[i%running] = spawn(t, "contend", dir)
		for _, name := range []string{"x", "y"} {
			lock := acquire(t, l, name)
			moment := now()
			all = append(all, holding{name, "exclusive", lock.Token(), moment, moment})
			release(t, lock)
		}
	}
	for _, p := range procs {
		kill(p)
	}
	if len(kinds) < 4 {
		t.Errorf("held were only %v", kinds)
	}
	exclude(t, all)
	for _, name := range []string{"x", "y"} {
		release(t, acquire(t, l, name))
	}
	d, _, err := openBackend(dir)
	must(t, err)
	d.sweep()
	if left, err := ticketsIn(dir, ""); err != nil || len(left) > 0 {
		t.Errorf("left: %q %v", left, err)
	}
}

// exclude checks that no exclusive holding overlaps another of its name, and that of two that cannot overlap the later
// has the greater token.
func exclude(t *testing.T, all []holding) {
	t.Helper()
	slices.SortFunc(all, func(a, b holding) int { return cmp.Compare(a.begun, b.begun) })
	counts := map[string]int{}
	ends, tokens := map[string]int64{}, map[string]int64{} // the greatest so far, by name and kind
	for _, h := range all {
		counts[h.name+" "+h.kind]++
		rivals := []string{h.name + " exclusive"}
		if h.kind == "exclusive" {
			rivals = append(rivals, h.name+" shared")
		}
		for _, rival := range rivals {
			if ends[rival] > h.begun {
				t.Errorf("%+v overlaps one of %s that ended at %d", h, rival, ends[rival])
			}
			if tokens[rival] >= h.token {
				t.Errorf("%+v came after one of %s with token %d", h, rival, tokens[rival])
			}
		}
		own := h.name + " " + h.kind
		ends[own], tokens[own] = max(ends[own], h.end), max(tokens[own], h.token)
	}
	t.Logf("holdings: %v", counts)
}

// The test of exclude: it sees what it has to.
func TestExclude(t *testing.T) {
	for what, second := range map[string]holding{
		"overlap": {"x", "shared", 2, 5, 20},
		"token":   {"x", "shared", 1, 15, 20},
	} {
		inner := &testing.T{}
		exclude(inner, []holding{{"x", "exclusive", 1, 0, 10}, second})
		if !inner.Failed() {
			t.Errorf("%s is not noticed", what)
		}
	}
}
