package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/internal/child"
	"github.com/seed80cd6120/locker/internal/faults/history"
)

// Process is a user of a lock service in a process of its own, which can be stopped
// and killed.
type Process struct {
	Name string

	child  *child.Process
	calls  *rpc.Client
	killed atomic.Bool // on purpose
}

// startProcess starts this test binary again, to play r.
func startProcess(ctx context.Context, r role) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envChild+"="+string(spec))
	c, err := child.Open(cmd)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: r.Name, child: c, calls: rpc.NewClient(c)}
	select {
	case ready := <-p.send(Order{Op: "ready"}, &Answer{}):
		if ready.Error != nil {
			<-p.child.Ended()
			return nil, fmt.Errorf("process %s did not come up: %w\n%s", p.Name, p.child.Err(), p.child.Said())
		}
		return p, nil
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("process %s did not come up: %w", p.Name, ctx.Err())
	}
}

// errEnded is what calls to a process give that has ended before it answered.
var errEnded = errors.New("the process has ended")

// send gives an order. The call has an error, and no answer, if the process ends.
func (p *Process) send(o Order, a *Answer) <-chan *rpc.Call {
	return p.calls.Go("user.Do", o, a, make(chan *rpc.Call, 1)).Done
}

// do gives an order and waits for the answer. A process that is stopped does not give
// any: the wait ends some time after what the order may take.
func (p *Process) do(o Order) (Answer, error) {
	patience := time.NewTimer(o.Within + 30*time.Second)
	defer patience.Stop()
	var a Answer
	select {
	case call := <-p.send(o, &a):
		var told rpc.ServerError
		switch {
		case errors.As(call.Error, &told):
			return Answer{}, child.Error(told)
		case call.Error != nil:
			return Answer{}, fmt.Errorf("%w: %v", errEnded, call.Error)
		}
		return a, nil
	case <-patience.C:
		return Answer{}, fmt.Errorf("process %s has not answered to %s", p.Name, o.Op)
	}
}

// Remote is a holding of a Process.
type Remote struct {
	Token  int64
	p      *Process
	handle int
}

// Acquire waits for the lock, or for as much of it as share says, as long as within.
func (p *Process) Acquire(within time.Duration, name string, share ...history.Share) (*Remote, error) {
	a, err := p.do(Order{Op: "acquire", Share: one(share), Name: name, Within: within})
	if err != nil {
		return nil, err
	}
	return &Remote{Token: a.Token, p: p, handle: a.Handle}, nil
}

// Look is one look at the context; the error is its cause.
func (r *Remote) Look() error { return r.do("look", 0) }

// Work writes to the protected resource without looking first.
func (r *Remote) Work() error { return r.do("work", 0) }

// Release gives the lock back.
func (r *Remote) Release(within time.Duration) error { return r.do("release", within) }

func (r *Remote) do(op string, within time.Duration) error {
	_, err := r.p.do(Order{Op: op, Handle: r.handle, Within: within})
	return err
}

// Stop stops the process, and returns when it has stopped; Continue lets it go on.
func (p *Process) Stop() error     { return p.child.Pause() }
func (p *Process) Continue() error { return p.child.Resume() }

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	p.killed.Store(true)
	p.child.Kill()
	_ = p.calls.Close()
}

// Close has the process close its client and end. Anything but a clean end is an
// error, a data race that it found included.
func (p *Process) Close(within time.Duration) error {
	if p.killed.Load() {
		return nil
	}
	_, err := p.do(Order{Op: "close", Within: within})
	_ = p.calls.Close()
	select {
	case <-p.child.Ended():
	case <-time.After(20 * time.Second):
		p.Kill()
		return fmt.Errorf("process %s does not end", p.Name)
	}
	if errors.Is(err, errEnded) {
		err = nil // what follows says more
	}
	if p.child.Err() != nil {
		err = errors.Join(err, fmt.Errorf("process %s: %w: %w\n%s", p.Name, errUnclean, p.child.Err(), p.child.Said()))
	}
	return err
}
