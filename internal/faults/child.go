package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/fence"
	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/internal/lateness"
)

const envChild = "LOCKER_FAULTS_CHILD"

// role is what a child process is started with.
type role struct {
	Name   string
	Access Access
	Folder string // of the histories
	Fence  string // address of the resource
}

// Order is a call of the parent, Answer what a child answers.
type Order struct {
	Op     string // see obey
	Name   string
	Share  history.Share
	Handle int
	Within time.Duration // the ctx of the call; 0: none
	Load   *Load
}

// Answer is what has come of an Order.
type Answer struct {
	Handle int
	Token  int64
	Tally  Tally
}

// errUnclean is what a process has left behind, or ended with: never right, however late the machine is.
var errUnclean = errors.New("not a clean end")

// Child has to be called first thing in TestMain. In a process that was started to be a user
// of a lock it never returns.
func Child() {
	spec := os.Getenv(envChild)
	pulse = lateness.Start(lateness.Limit)
	if spec == "" {
		return
	}
	var r role
	err := json.Unmarshal([]byte(spec), &r)
	if err == nil {
		err = r.play(parent{os.Stdin, os.Stdout})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
	os.Exit(0)
}

// parent is the other side of a child.
type parent struct {
	io.Reader
	io.WriteCloser
}

// user carries out orders.
type user struct {
	player *Player
	load   *worker
	before stock // what the process had before it had a client
	closed atomic.Bool

	mu   sync.Mutex
	held map[int]*Holding
}

// play carries out what the parent orders, until it closes the pipe.
func (r role) play(parent io.ReadWriteCloser) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rec, err := history.NewRecorder(filepath.Join(r.Folder, r.Name+".jsonl"), r.Name)
	if err != nil {
		return err
	}
	res, err := fence.Dial(r.Fence)
	if err != nil {
		return err
	}
	before := takeStock()
	c, err := Open(ctx, r.Access)
	if err != nil {
		return err
	}
	u := &user{player: &Player{Name: r.Name, client: c, rec: rec, res: res}, held: make(map[int]*Holding), before: before}
	calls := rpc.NewServer()
	if err := calls.RegisterName("user", u); err != nil {
		return err
	}
	calls.ServeConn(parent)
	if !u.closed.Load() {
		return fmt.Errorf("the parent is gone: %w", io.EOF)
	}
	return nil
}

// Do carries out one order; what goes wrong is in the answer.
func (u *user) Do(o Order, a *Answer) error {
	ctx := context.Background()
	if o.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Within)
		defer cancel()
	}
	return u.obey(ctx, o, a)
}

func (u *user) obey(ctx context.Context, o Order, a *Answer) error {
	switch o.Op {
	case "ready":
		return nil
	case "acquire":
		h, err := u.player.Acquire(ctx, o.Name, o.Share)
		if err != nil {
			return err
		}
		a.Handle, a.Token = h.Op, h.Lock.Token()
		u.mu.Lock()
		u.held[h.Op] = h
		u.mu.Unlock()
		return nil
	case "load":
		u.load = o.Load.start(u.player)
		return nil
	case "count":
		a.Tally = u.load.soFar()
		return nil
	case "stop":
		a.Tally = u.load.stop()
		return nil
	case "close":
		defer u.closed.Store(true)
		return errors.Join(u.player.client.Close(ctx), u.before.left(), u.player.rec.Close())
	}
	u.mu.Lock()
	h := u.held[o.Handle]
	u.mu.Unlock()
	if h == nil {
		return fmt.Errorf("%s: there is no holding %d", o.Op, o.Handle)
	}
	switch o.Op {
	case "look":
		if h.Look() != nil {
			return context.Cause(h.Lock.Context())
		}
		return nil
	case "work":
		return h.Work()
	case "release":
		return h.Release(ctx)
	}
	return fmt.Errorf("unknown order %q", o.Op)
}

// stock is what a process has of what it could leave behind.
type stock struct{ files, goroutines int }

func takeStock() stock {
	fds, _ := os.ReadDir("/proc/self/fd") // where there is none, nothing is counted
	return stock{len(fds), runtime.NumGoroutine()}
}

// left waits for 250 looks, which is five seconds, until there is no more than before, but for the goroutine of this call, and
// says what there is if it does not come to that.
func (before stock) left() error {
	var now stock
	for range 250 {
		if now = takeStock(); now.files <= before.files && now.goroutines <= before.goroutines+1 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	stacks := make([]byte, 64<<10)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return fmt.Errorf("%w: after closing there are %d files and %d goroutines, before opening there were %d and %d:\n%s",
		errUnclean, now.files, now.goroutines, before.files, before.goroutines, stacks)
}
