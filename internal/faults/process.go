package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/seed80cd6120/locker/internal/faults/history"
)

// Process is a user of a lock service in a process of its own, which can be stopped
// and killed.
type Process struct {
	Name string

	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr *bytes.Buffer // to be read when the process has ended
	ended  chan struct{} // closed when it has
	err    error         // how

	mu      sync.Mutex
	orders  *json.Encoder
	id      int
	pending map[int]chan answer // nil once the process has ended
	killed  bool                // on purpose
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
	p := &Process{
		Name:    r.Name,
		cmd:     exec.Command(self),
		stderr:  new(bytes.Buffer),
		ended:   make(chan struct{}),
		pending: map[int]chan answer{},
	}
	p.cmd.Env = append(os.Environ(), envChild+"="+string(spec))
	p.cmd.SysProcAttr = childAttr()
	p.cmd.Stderr = p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.orders = json.NewEncoder(p.in)
	ready := make(chan answer, 1)
	p.pending[0] = ready
	if err := startOnThread(p.cmd); err != nil {
		return nil, err
	}
	go p.read(out)
	select {
	case _, ok := <-ready:
		if !ok {
			<-p.ended
			return nil, fmt.Errorf("process %s did not come up: %w\n%s", p.Name, p.err, p.stderr)
		}
		return p, nil
	case <-ctx.Done():
		p.Kill()
		return nil, fmt.Errorf("process %s did not come up: %w", p.Name, ctx.Err())
	}
}

func (p *Process) read(out io.Reader) {
	for answers := json.NewDecoder(out); ; {
		var a answer
		if answers.Decode(&a) != nil {
			break
		}
		p.mu.Lock()
		c := p.pending[a.ID]
		delete(p.pending, a.ID)
		p.mu.Unlock()
		if c != nil {
			c <- a
		}
	}
	p.err = p.cmd.Wait()
	p.mu.Lock()
	for _, c := range p.pending {
		close(c)
	}
	p.pending = nil
	p.mu.Unlock()
	close(p.ended)
}

// errEnded is what calls to a process give that has ended before it answered.
var errEnded = errors.New("the process has ended")

// send gives an order; the channel is closed without an answer if the process ends.
func (p *Process) send(o order) <-chan answer {
	c := make(chan answer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == nil {
		close(c)
		return c
	}
	p.id++
	o.ID = p.id
	p.pending[o.ID] = c
	_ = p.orders.Encode(o) // if it fails the process ends, and c is closed
	return c
}

func (a answer) err() error {
	switch {
	case a.Code != "":
		return fmt.Errorf("%w (%s)", sentinels[a.Code], a.Err)
	case a.Err != "":
		return errors.New(a.Err)
	}
	return nil
}

// do gives an order and waits for the answer. A process that is stopped does not give
// any: the wait ends some time after what the order may take.
func (p *Process) do(o order) (answer, error) {
	patience := time.NewTimer(o.Within + 30*time.Second)
	defer patience.Stop()
	select {
	case a, ok := <-p.send(o):
		if !ok {
			return a, errEnded
		}
		return a, a.err()
	case <-patience.C:
		return answer{}, fmt.Errorf("process %s has not answered to %s", p.Name, o.Op)
	}
}

// Remote is a holding of a Process.
type Remote struct {
	Token  int64
	p      *Process
	handle int
}

// Acquire waits for the lock as long as within. took is how long the call lasted by
// the process's own clock.
func (p *Process) Acquire(within time.Duration, name string) (r *Remote, took time.Duration, err error) {
	return p.AcquireAs(within, history.Share{}, name)
}

// AcquireAs waits for as much of the lock.
func (p *Process) AcquireAs(within time.Duration, share history.Share, name string) (r *Remote, took time.Duration, err error) {
	return p.take(order{Op: "acquire", Share: share, Name: name, Within: within})
}

// Try takes the lock if it is free.
func (p *Process) Try(within time.Duration, name string) (r *Remote, took time.Duration, err error) {
	return p.take(order{Op: "try", Name: name, Within: within})
}

func (p *Process) take(o order) (*Remote, time.Duration, error) {
	a, err := p.do(o)
	if err != nil {
		return nil, a.Took, err
	}
	return &Remote{Token: a.Token, p: p, handle: a.Handle}, a.Took, nil
}

// Look is one look at the context; the error is its cause.
func (r *Remote) Look() error { return r.do("look", 0) }

// Work writes to the protected resource without looking first.
func (r *Remote) Work() error { return r.do("work", 0) }

// AwaitLoss waits until the holder was told that the lock is lost.
func (r *Remote) AwaitLoss(within time.Duration) error { return r.do("await", within) }

// Release gives the lock back.
func (r *Remote) Release(within time.Duration) error { return r.do("release", within) }

func (r *Remote) do(op string, within time.Duration) error {
	_, err := r.p.do(order{Op: op, Handle: r.handle, Within: within})
	return err
}

// Stop stops the process in its tracks, Continue lets it go on.
func (p *Process) Stop() error     { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *Process) Continue() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Close has the process close its client and end. Anything but a clean end is an
// error, a data race that it found included.
func (p *Process) Close(within time.Duration) error {
	p.mu.Lock()
	killed := p.killed
	p.mu.Unlock()
	if killed {
		return nil
	}
	_, err := p.do(order{Op: "close", Within: within})
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.Kill()
		return fmt.Errorf("process %s does not end", p.Name)
	}
	if errors.Is(err, errEnded) {
		err = nil // what follows says more
	}
	if p.err != nil {
		err = errors.Join(err, fmt.Errorf("process %s: %w\n%s", p.Name, p.err, p.stderr))
	}
	return err
}
