package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
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

// order is one line from the parent, answer one to it.
type order struct {
	ID     int
	Op     string // see obey
	Name   string
	Share  history.Share
	Handle int
	Within time.Duration // the ctx of the call; 0: none
	Load   *Load
}

type answer struct {
	ID     int
	Handle int
	Token  int64
	Err    string
	Code   string // which sentinel error Err stands for
	Took   time.Duration
	Tally  Tally
}

var sentinels = map[string]error{
	"taken":    locker.ErrNotAcquired,
	"lost":     locker.ErrLost,
	"closed":   locker.ErrClosed,
	"deadline": context.DeadlineExceeded,
	"canceled": context.Canceled,
	"stale":    fence.ErrStale,
}

// codeOf prefers the sentinel that says most.
func codeOf(err error) string {
	for _, code := range []string{"stale", "lost", "taken", "closed", "deadline", "canceled"} {
		if errors.Is(err, sentinels[code]) {
			return code
		}
	}
	return ""
}

// pulse measures when this process does not run, because it is stopped or the machine has other things to do.
var pulse *lateness.Meter

// Child has to be called first thing in TestMain. In a process that was started to be a user
// of a lock it never returns.
func Child() {
	spec := os.Getenv(envChild)
	pulse = lateness.Start(50 * time.Millisecond)
	if spec == "" {
		prepare()
		return
	}
	var r role
	err := json.Unmarshal([]byte(spec), &r)
	if err == nil {
		err = r.play(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(3)
	}
	os.Exit(0)
}

// actor carries out orders.
type actor struct {
	player *Player
	mu     sync.Mutex // guards out and holdings
	out    *json.Encoder
	held   map[int]*Holding
	load   *worker
	before stock // what the process had before it had a client
}

func (r role) play(in io.Reader, out io.Writer) error {
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
	a := &actor{
		player: &Player{Name: r.Name, client: c, rec: rec, res: res},
		out:    json.NewEncoder(out),
		held:   make(map[int]*Holding),
		before: before,
	}
	if err := a.reply(answer{}); err != nil { // ready
		return err
	}
	for orders := json.NewDecoder(in); ; {
		var o order
		if err := orders.Decode(&o); err != nil {
			return err // the parent is gone
		}
		if o.Op == "close" {
			return a.reply(a.do(o))
		}
		go func() { _ = a.reply(a.do(o)) }()
	}
}

func (a *actor) reply(ans answer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Encode(ans)
}

func (a *actor) do(o order) answer {
	ctx := context.Background()
	if o.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Within)
		defer cancel()
	}
	ans := answer{ID: o.ID}
	start := time.Now()
	err := a.obey(ctx, o, &ans)
	ans.Took = time.Since(start)
	if err != nil {
		ans.Err, ans.Code = err.Error(), codeOf(err)
	}
	return ans
}

func (a *actor) obey(ctx context.Context, o order, ans *answer) error {
	switch o.Op {
	case "acquire", "try":
		take := a.player.AcquireAs
		if o.Op == "try" {
			take = a.player.TryAs
		}
		h, err := take(ctx, o.Share, o.Name)
		if err != nil {
			return err
		}
		ans.Handle, ans.Token = h.Op, h.Lock.Token()
		a.mu.Lock()
		a.held[h.Op] = h
		a.mu.Unlock()
		return nil
	case "load":
		a.load = o.Load.start(a.player)
		return nil
	case "count":
		ans.Tally = a.load.soFar()
		return nil
	case "stop":
		ans.Tally = a.load.stop()
		return nil
	case "close":
		return errors.Join(a.player.client.Close(ctx), a.before.left(), a.player.rec.Close())
	}
	a.mu.Lock()
	h := a.held[o.Handle]
	a.mu.Unlock()
	if h == nil {
		return fmt.Errorf("%s: there is no holding %d", o.Op, o.Handle)
	}
	switch o.Op {
	case "look":
		if h.Look() != nil {
			return context.Cause(h.Lock.Context())
		}
		return nil
	case "await":
		select {
		case <-h.Lost():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
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

// left waits until there is no more than before, and says what there is if it does not
// come to that.
func (before stock) left() error {
	var now stock
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if now = takeStock(); now.files <= before.files && now.goroutines <= before.goroutines {
			return nil
		}
	}
	stacks := make([]byte, 64<<10)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return fmt.Errorf("after closing there are %d files and %d goroutines, before opening there were %d and %d:\n%s",
		now.files, now.goroutines, before.files, before.goroutines, stacks)
}
