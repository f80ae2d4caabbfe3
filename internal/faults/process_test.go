package faults

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/faults/fence"
	"github.com/seed80cd6120/locker/internal/faults/history"
	"github.com/seed80cd6120/locker/memory"
)

// A lock that needs no server, to test processes with.
func init() {
	Register("memory", func(_ context.Context, a Access) (conformance.Client, error) {
		l, err := memory.New(a.Options()...)
		return ClientOf(l, err, nil)
	})
}

// startUser starts a process that uses such a lock. folder is where it records.
func startUser(t *testing.T, kind, folder string) (*Process, *fence.Resource, error) {
	t.Helper()
	res := fence.New()
	served, err := res.Serve()
	must(t, err)
	t.Cleanup(func() { _ = served.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := startProcess(ctx, role{
		Name: "A", Access: Access{Kind: kind, TTL: time.Minute}, Folder: folder, Fence: served.Addr(),
	})
	if err == nil {
		t.Cleanup(p.Kill)
	}
	return p, res, err
}

const soon = 20 * time.Second

// A process takes locks and gives them back as it is told, says which error it met, and
// leaves a history behind.
func TestProcessObeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, res, err := startUser(t, "memory", dir)
	must(t, err)
	r, err := p.Acquire(soon, "x")
	must(t, err)
	start := time.Now()
	if _, err := p.Acquire(50*time.Millisecond, "x"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) < 50*time.Millisecond {
		t.Errorf("a wait of 50ms: %v after %v", err, time.Since(start))
	}
	if err := errors.Join(r.Look(), r.Work()); err != nil {
		t.Error(err)
	}
	if n := res.Writes("x"); n != 1 {
		t.Errorf("%d writes came to the resource", n)
	}
	if err := r.Release(soon); err != nil {
		t.Error(err)
	}
	if err := r.Look(); err == nil {
		t.Error("the context is alive after the release")
	}
	if err := p.Close(soon); err != nil {
		t.Error(err)
	}
	h, err := history.Read(filepath.Join(dir, "*.jsonl"))
	must(t, err)
	if len(h.Holdings) != 1 || h.Failed != 1 || h.Holdings[0].Token != r.Token || !h.Holdings[0].Freed {
		t.Errorf("%d holdings and %d failures were recorded: %+v", len(h.Holdings), h.Failed, h.Holdings)
	}
}

// A process that is stopped does nothing until it is to go on.
func TestProcessStops(t *testing.T) {
	t.Parallel()
	p, _, err := startUser(t, "memory", t.TempDir())
	must(t, err)
	must(t, p.Stop())
	var a Answer
	call := p.send(Order{Op: "acquire", Name: "x", Within: soon}, &a)
	select {
	case <-call:
		t.Errorf("a process that is stopped has answered: %+v", a)
	case <-time.After(200 * time.Millisecond):
	}
	must(t, p.Continue())
	select {
	case c := <-call:
		if err := c.Error; err != nil {
			t.Errorf("a process that went on: %v", err)
		}
	case <-time.After(soon):
		t.Error("a process that went on does not answer")
	}
}

// A process that is killed is gone when Kill returns, stopped or not, whatever it was about to
// do, and that is not held against it.
func TestProcessDies(t *testing.T) {
	t.Parallel()
	p, _, err := startUser(t, "memory", t.TempDir())
	must(t, err)
	_, err = p.Acquire(soon, "x")
	must(t, err)
	waiting := p.send(Order{Op: "acquire", Name: "x", Within: time.Minute}, &Answer{})
	must(t, p.Stop())
	p.Kill()
	if c := <-waiting; c.Error == nil {
		t.Errorf("the dead have answered: %+v", c.Reply)
	}
	if p.child.Running() {
		t.Error("it was not waited for")
	}
	if _, err := p.Acquire(soon, "x"); !errors.Is(err, errEnded) {
		t.Errorf("acquire: %v, want %v", err, errEnded)
	}
	if err := p.Close(soon); err != nil {
		t.Errorf("close: %v", err)
	}
}

// One that ended by itself, or never came up, says why.
func TestProcessFails(t *testing.T) {
	t.Parallel()
	if _, _, err := startUser(t, "nobody's", t.TempDir()); err == nil || !strings.Contains(err.Error(), `kind "nobody's"`) {
		t.Errorf("a process without a lock: %v", err)
	}
	p, _, err := startUser(t, "memory", t.TempDir())
	must(t, err)
	_ = p.calls.Close() // as if this process had died
	<-p.child.Ended()
	if err := p.Close(soon); err == nil || !strings.Contains(err.Error(), "the parent is gone: EOF") {
		t.Errorf("a process that ended by itself: %v", err)
	}
}
