package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/fence"
	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/stamp"
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

	label    string
	dir      string
	patience time.Duration // how long what is left at the end may take to go
	res      *fence.Resource
	fence    *fence.Server
	rec      *history.Recorder

	complained atomic.Bool
	tries      *atomic.Int32 // of the row, that failed for a reason that is not its question

	mu      sync.Mutex
	users   int
	players []*Player
	procs   []*Process
	nets    []*Network
	names   []string
	granted map[string]holder // who got a lock last
	checks  []func(h *history.History)
}

// Full says that everything is to be run, in its full length.
var Full = os.Getenv("LOCKER_FAULTS") == "full"

var exams atomic.Int64

// limit is how long one row may take.
const limit = 3 * time.Minute

// underWay is how many rows are.
var underWay atomic.Int64

// Examine runs a row on s, if others are under way when the machine is not late.
func Examine(t testing.TB, s *Servers, row func(x *Exam)) {
	t.Helper()
	examine(t, s, row, false)
}

// examine is Examine. If fresh, a row that begins again does so on new servers.
func examine(t testing.TB, s *Servers, row func(x *Exam), fresh bool) {
	t.Helper()
	var tries atomic.Int32
	pulse.Calm(func() bool { return underWay.Load() > 0 })
	underWay.Add(1)
	defer underWay.Add(-1)
	for attempt(t, s, &tries, row) {
		if fresh {
			s = StartOn(t, s.Backend)
		}
	}
}

// attempt runs a row, and reports whether to do so again.
func attempt(t testing.TB, s *Servers, tries *atomic.Int32, row func(x *Exam)) (again bool) {
	t.Helper()
	x := newExam(t, s)
	x.tries = tries
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("exam", x.label)))
	defer pprof.SetGoroutineLabels(context.Background())
	defer x.abort()
	return beginsAgain(func() { row(x); x.finish() }) && x.safe()
}

// beginsAgain calls f; it returns whether that ended because the row begins again.
func beginsAgain(f func()) (again bool) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case errAgain:
			again = true
		default:
			panic(p)
		}
	}()
	f()
	return false
}

// errAgain is what a row panics with that could not come to its question; see again.
var errAgain = errors.New("again")

func newExam(t testing.TB, s *Servers) *Exam {
	t.Helper()
	x := &Exam{
		TB: t, Servers: *s, label: strconv.FormatInt(exams.Add(1), 10), dir: t.TempDir(), patience: 10 * time.Second,
		res: fence.New(), granted: make(map[string]holder),
	}
	var cancel context.CancelFunc
	x.Ctx, cancel = context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	var err error
	x.fence, err = x.res.Serve()
	x.Must(err)
	x.rec, err = history.NewRecorder(filepath.Join(x.dir, "exam.jsonl"), "exam")
	x.Must(err)
	for _, server := range s.All {
		switch { // a row that began again had killed or stopped it
		case server.Given():
		case server.PID() == 0:
			x.Must(server.RestartNoWait(x.Ctx))
		default:
			x.Must(server.Resume())
		}
	}
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
func (x *Exam) Lock() string { return x.use(fmt.Sprintf("exam-%s-%d", x.label, len(x.names)+1)) }

// use has a name of the row's own choosing looked after.
func (x *Exam) use(name string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.names = append(x.names, name)
	return name
}

func (x *Exam) network() (*Network, Access) {
	net, access, err := NewNetwork(x.Access, x.reached())
	x.Must(err)
	x.mu.Lock()
	x.nets = append(x.nets, net)
	x.mu.Unlock()
	return net, access
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
	p := x.player(who, access)
	p.net = net
	return p, net
}

func (x *Exam) player(who string, access Access) *Player {
	x.Helper()
	name := x.name(who)
	c, err := Open(x.Within(30*time.Second), access)
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
	p, err := x.start(who, access)
	x.Must(err)
	return p, net
}

func (x *Exam) start(who string, access Access) (*Process, error) {
	p, err := startProcess(x.Within(time.Minute), role{Name: x.name(who), Access: access, Folder: x.dir, Fence: x.fence.Addr()})
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.procs = append(x.procs, p)
	return p, nil
}

// Kill kills a process and says so in the history.
func (x *Exam) Kill(p *Process) (at int64) {
	at = stamp.Now()
	x.rec.Add(history.Event{Kind: history.Died, T: at, Proc: p.Name})
	p.Kill()
	return at
}

// Did records a fault that is done by do. If it destroys, holdings of name that there
// were may be gone at the servers, of all names if that is "".
func (x *Exam) Did(what string, destroys bool, name string, do func() error) {
	x.Helper()
	if err := x.did(what, destroys, name, do); err != nil {
		x.Fatalf("%s: %v", what, err)
	}
}

// DidTo is Did for a fault that destroys one holding.
func (x *Exam) DidTo(h *Holding, what string, do func() error) {
	x.Helper()
	if err := x.record(history.Event{Err: what, Name: h.name, Token: h.Lock.Token(), Destroys: true}, do); err != nil {
		x.Fatalf("%s: %v", what, err)
	}
}

func (x *Exam) did(what string, destroys bool, name string, do func() error) error {
	return x.record(history.Event{Err: what, Name: name, Destroys: destroys}, do)
}

// record records the fault that is done by do.
func (x *Exam) record(fault history.Event, do func() error) error {
	fault.Kind, fault.T = history.Fault, stamp.Now()
	defer func() { // also if the row ends in do
		fault.Until = stamp.Now()
		x.rec.Add(fault)
	}()
	return do()
}
