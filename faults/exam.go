package faults

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/faults/fence"
	"github.com/seed80cd6120/locker/faults/history"
)

// Exam is one fault on one backend. Whatever is opened through it is recorded, closed
// at the end, and asked the four questions.
type Exam struct {
	testing.TB
	Servers
	Ctx context.Context // ends when the row may not go on

	// TwoHold: the fault takes exclusion away, and the row has to show two holders.
	TwoHold bool
	// Untidy: what is left on the servers is not this row's question.
	Untidy bool

	label string
	dir   string
	res   *fence.Resource
	fence *fence.Server
	rec   *history.Recorder

	mu      sync.Mutex
	users   int
	players []*Player
	procs   []*Process
	nets    []*Network
	names   []string
	checks  []func(h *history.History)
}

var exams atomic.Int64

// limit is how long one row may take.
const limit = 3 * time.Minute

// Examine runs a row on s.
func Examine(t testing.TB, s *Servers, row func(x *Exam)) {
	t.Helper()
	x := newExam(t, s)
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("exam", x.label)))
	defer pprof.SetGoroutineLabels(context.Background())
	defer x.abort()
	row(x)
	x.finish()
}

func newExam(t testing.TB, s *Servers) *Exam {
	t.Helper()
	x := &Exam{TB: t, Servers: *s, dir: t.TempDir(), res: fence.New(), label: strconv.FormatInt(exams.Add(1), 10)}
	var cancel context.CancelFunc
	x.Ctx, cancel = context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	var err error
	x.fence, err = x.res.Serve()
	x.Must(err)
	x.rec, err = history.NewRecorder(filepath.Join(x.dir, "exam.jsonl"), "exam")
	x.Must(err)
	x.Must(s.WaitReady(x.Ctx))
	return x
}

// Must ends the row if err is not nil: it is about what the row needs, not about what
// it asks.
func (x *Exam) Must(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

// Check has something more be asked of the history.
func (x *Exam) Check(check func(h *history.History)) { x.checks = append(x.checks, check) }

// Lock returns a name for a lock that nobody else uses.
func (x *Exam) Lock() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := fmt.Sprintf("exam-%s-%d", x.label, len(x.names)+1)
	x.names = append(x.names, name)
	return name
}

// use has a name of the row's own choosing looked after.
func (x *Exam) use(name string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.names = append(x.names, name)
	return name
}

func (x *Exam) network() (*Network, Access) {
	net, access, err := newNetwork(x.Access, x.proxied())
	x.Must(err)
	x.mu.Lock()
	x.nets = append(x.nets, net)
	x.mu.Unlock()
	return net, access
}

// proxied are the addresses in front of which proxies go.
func (x *Exam) proxied() []string {
	addrs := x.Addrs
	if x.Sentinel != nil {
		addrs = append(append([]string(nil), addrs...), x.Sentinel.SentinelAddrs()...)
	}
	return addrs
}

func (x *Exam) name(who string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.users++
	return fmt.Sprintf("%s%d", who, x.users)
}

// Player opens a user in this process, with a network of its own.
func (x *Exam) Player(who string) (*Player, *Network) {
	x.Helper()
	net, access := x.network()
	return x.player(who, access), net
}

func (x *Exam) player(who string, access Access) *Player {
	x.Helper()
	name := x.name(who)
	ctx, cancel := context.WithTimeout(x.Ctx, 30*time.Second)
	defer cancel()
	c, err := Open(ctx, access)
	x.Must(err)
	rec, err := history.NewRecorder(filepath.Join(x.dir, name+".jsonl"), name)
	x.Must(err)
	p := &Player{Name: name, client: c, rec: rec, res: x.res}
	x.mu.Lock()
	x.players = append(x.players, p)
	x.mu.Unlock()
	return p
}

// Process starts a user in another process, with a network of its own.
func (x *Exam) Process(who string) (*Process, *Network) {
	x.Helper()
	net, access := x.network()
	ctx, cancel := context.WithTimeout(x.Ctx, time.Minute)
	defer cancel()
	p, err := startProcess(ctx, role{Name: x.name(who), Access: access, Folder: x.dir, Fence: x.fence.Addr()})
	x.Must(err)
	x.mu.Lock()
	x.procs = append(x.procs, p)
	x.mu.Unlock()
	return p, net
}

// Kill kills a process and says so in the history.
func (x *Exam) Kill(p *Process) (at int64) {
	at = history.Now()
	x.rec.Add(history.Event{Kind: history.Died, T: at, Proc: p.Name})
	p.Kill()
	return at
}

// Did records a fault that is done by do. If it destroys, holdings of name that there
// were may be gone at the servers, of all names if that is "".
func (x *Exam) Did(what string, destroys bool, name string, do func() error) {
	x.Helper()
	t := history.Now()
	err := do()
	x.rec.Add(history.Event{Kind: history.Fault, T: t, Until: history.Now(), Err: what, Name: name, Destroys: destroys})
	if err != nil {
		x.Fatalf("%s: %v", what, err)
	}
}

// Within returns a ctx that ends after d.
func (x *Exam) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(x.Ctx, d)
	x.Cleanup(cancel)
	return ctx
}

// Acquired has p take the lock, which has to succeed within d.
func (x *Exam) Acquired(p *Player, name string, d time.Duration) *Holding {
	x.Helper()
	h, err := p.Acquire(x.Within(d), name)
	if err != nil {
		x.Fatalf("%s did not get the lock within %v: %v", p.Name, d, err)
	}
	return h
}

// Taken is Acquired for another process.
func (x *Exam) Taken(p *Process, name string, d time.Duration) *Remote {
	x.Helper()
	r, _, err := p.Acquire(d, name)
	if err != nil {
		x.Fatalf("%s did not get the lock within %v: %v", p.Name, d, err)
	}
	return r
}

// Close closes a user before the end.
func (x *Exam) Close(p *Player) {
	x.Helper()
	if err := p.client.Close(x.Within(15 * time.Second)); err != nil && x.Backend.Offers.Tidy {
		x.Errorf("close: %v", err)
	}
}

// Released has h given back, which has to succeed.
func (x *Exam) Released(h *Holding) {
	x.Helper()
	if err := h.Release(x.Within(10 * time.Second)); err != nil {
		x.Errorf("release: %v", err)
	}
}

// Soon asserts that a call returned by the end of its ctx and a second.
func (x *Exam) Soon(what string, started time.Time, within time.Duration) {
	x.Helper()
	if took := time.Since(started); took > within+late {
		x.Errorf("%s took %v, with %v to go by", what, took, within)
	}
}

// Waits has p wait for the lock in the background, and returns when it stands in the
// queue at the server (or, where nobody can tell, after a moment).
func (x *Exam) Waits(p *Player, name string, d time.Duration) <-chan Got {
	x.Helper()
	before := x.waiting(name)
	c := make(chan Got, 1)
	ctx := x.Within(d)
	go func() {
		start := time.Now()
		h, err := p.Acquire(ctx, name)
		c <- Got{h, err, time.Since(start), history.Now()}
	}()
	if x.Waiting == nil {
		time.Sleep(200 * time.Millisecond)
		return c
	}
	x.Until("there is one more who waits", 10*time.Second, func() bool { return x.waiting(name) > before })
	return c
}

func (x *Exam) waiting(name string) int {
	if x.Waiting == nil {
		return 0
	}
	n, err := x.Waiting(x.Within(5*time.Second), name)
	if err != nil {
		return 0
	}
	return n
}

// Got is how a wait has ended.
type Got struct {
	Holding *Holding
	Err     error
	Took    time.Duration
	At      int64
}

// Get waits for the end of a wait, which has to be a lock.
func (x *Exam) Get(c <-chan Got) *Holding {
	x.Helper()
	select {
	case g := <-c:
		if g.Err != nil {
			x.Fatalf("a waiter did not get the lock: %v", g.Err)
		}
		return g.Holding
	case <-x.Ctx.Done():
		x.Fatalf("a waiter is stuck")
		return nil
	}
}

// Told waits until the holder has been told of the loss.
func (x *Exam) Told(h *Holding, within time.Duration) {
	x.Helper()
	select {
	case <-h.Lost():
	case <-time.After(within):
		x.Errorf("the holder was not told within %v that the lock is lost", within)
	}
}

// Until waits until cond is true.
func (x *Exam) Until(what string, within time.Duration, cond func() bool) {
	x.Helper()
	for deadline := time.Now().Add(within); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.Fatalf("it has not come to it within %v that %s", within, what)
		}
	}
}

// abort frees what a row that failed has left.
func (x *Exam) abort() {
	x.mu.Lock()
	procs, nets, players := x.procs, x.nets, x.players
	x.procs, x.nets, x.players = nil, nil, nil
	x.mu.Unlock()
	for _, p := range procs {
		p.Kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, p := range players {
		_ = p.Close(ctx)
	}
	for _, n := range nets {
		_ = n.Close()
	}
	_ = x.fence.Close()
}

// finish asks the four questions.
func (x *Exam) finish() {
	x.Helper()
	if x.Failed() {
		return // the rest would only repeat it
	}
	x.Must(x.WaitReady(x.Ctx))
	for _, n := range x.nets {
		n.Heal()
	}
	x.closeAll()
	x.tidy()
	h := x.judge()
	if !x.Failed() {
		measure(x.Backend.Name, h)
	}
	x.mu.Lock()
	x.players, x.procs = nil, nil
	x.mu.Unlock()
	x.abort()
	if x.Backend.Offers.Tidy {
		x.quiet()
	}
}

// closeAll closes all users; the third question is asked of Close, too.
func (x *Exam) closeAll() {
	x.Helper()
	const within = 15 * time.Second
	for _, p := range x.players {
		start := time.Now()
		if err := p.Close(x.Within(within)); err != nil && x.Backend.Offers.Tidy {
			x.Errorf("close %s: %v", p.Name, err)
		}
		x.Soon("close", start, within)
	}
	for _, p := range x.procs {
		if err := p.Close(within); err != nil && x.Backend.Offers.Tidy {
			x.Errorf("close: %v", err)
		}
	}
}

// tidy waits until nothing is left on the servers.
func (x *Exam) tidy() {
	x.Helper()
	if x.Litter == nil || x.Untidy || !x.Backend.Offers.Tidy {
		return
	}
	var left []string
	deadline := time.Now().Add(x.Backend.Death + 8*time.Second)
	for _, name := range x.names {
		for {
			var err error
			left, err = x.Litter(x.Within(10*time.Second), name)
			if err == nil && len(left) == 0 {
				break
			}
			if time.Now().After(deadline) {
				x.Errorf("left on the servers of %q: %q %v", name, left, err)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// judge reads the history.
func (x *Exam) judge() *history.History {
	x.Helper()
	x.Must(x.rec.Close())
	h, err := history.Read(filepath.Join(x.dir, "*.jsonl"))
	x.Must(err)
	swept := h.Sweep()
	// A lock that does not tell its holders of a loss cannot keep them from overlapping.
	if x.Backend.Offers.Lost {
		x.some("history", swept.Bad())
	}
	v, err := h.Check(x.Backend.Death+2*time.Second, 20*time.Second, keepFolder())
	x.Must(err)
	if !v.Legal && x.Backend.Offers.Lost {
		x.Errorf("porcupine refuses the history; see %s", v.Picture)
	}
	if v.Unsure {
		x.Errorf("porcupine had no time to decide")
	}
	excused := 0
	for _, o := range swept.Overlaps {
		if o.Excused {
			excused++
			x.Logf("as promised, the fence told two apart: %v", o)
		}
	}
	if x.TwoHold && excused == 0 {
		x.Errorf("the row was to show two holders at once, and did not")
	}
	if x.Backend.Offers.Tokens {
		x.some("resource", x.res.Violations())
	}
	for _, check := range x.checks {
		check(h)
	}
	for _, g := range gaps(h) {
		x.Logf("%v", g)
	}
	return h
}

// some reports what was found, or as much of it as anybody reads.
func (x *Exam) some(what string, found []string) {
	x.Helper()
	const most = 10
	for _, f := range found[:min(most, len(found))] {
		x.Errorf("%s: %s", what, f)
	}
	if more := len(found) - most; more > 0 {
		x.Errorf("%s: and %d more", what, more)
	}
}

// quiet waits until no goroutine is left that this row has started.
func (x *Exam) quiet() {
	x.Helper()
	pprof.SetGoroutineLabels(context.Background())
	var left string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if left = labelled(x.label); left == "" {
			return
		}
	}
	x.Errorf("goroutines are left:\n%s", left)
}

var labels = regexp.MustCompile(`(?m)^# labels: .*"exam":"(\d+)"`)

// labelled returns the stacks of the goroutines that descend from a row.
func labelled(label string) string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	var found []string
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		if m := labels.FindStringSubmatch(stack); m != nil && m[1] == label {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}
