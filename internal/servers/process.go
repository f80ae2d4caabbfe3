package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/seed80cd6120/locker/internal/child"
)

// process is one child. It is reaped here and nowhere else, so its pid cannot belong
// to a stranger while exited says false.
type process struct {
	pid    int
	family bool      // its children are signalled, too
	guard  io.Closer // ends the child with this process where the system does not

	mu   sync.Mutex
	done bool
	ws   syscall.WaitStatus
}

func (s *Server) startProcess(bin string, args []string) (*process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// A group of its own keeps the terminal's Ctrl-C from it: this process decides.
	sys := child.Attributes()
	sys.Setpgid, sys.Credential = true, s.user.credential()
	attr := &os.ProcAttr{Dir: s.dir, Env: os.Environ(), Files: []*os.File{null, log, log}, Sys: sys}
	var p *os.Process
	err = child.Start(func() (err error) {
		p, err = os.StartProcess(bin, append([]string{bin}, args...), attr)
		return err
	})
	if err != nil {
		return nil, err
	}
	started := &process{pid: p.Pid, family: s.family}
	_ = p.Release() // from here on the pid alone is used
	if started.guard, err = guardChild(started.pid); err != nil {
		return nil, errors.Join(err, started.end(syscall.SIGKILL, time.Second))
	}
	return started, nil
}

// exited reports whether the child has ended, and reaps it if so.
func (p *process) exited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exitedLocked()
}

func (p *process) exitedLocked() bool {
	if p.done {
		return true
	}
	for {
		pid, err := syscall.Wait4(p.pid, &p.ws, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		// ECHILD: somebody else reaped it, which only a program that waits for
		// every child does. It is gone all the same.
		p.done = pid == p.pid || err == syscall.ECHILD
		break
	}
	if p.done && p.guard != nil {
		_ = p.guard.Close()
	}
	return p.done
}

// status says how the child ended.
func (p *process) status() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.done:
		return "running"
	case p.ws.Signaled():
		return p.ws.Signal().String()
	default:
		return fmt.Sprintf("exit status %d", p.ws.ExitStatus())
	}
}

func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exitedLocked() {
		return ErrNotRunning
	}
	switch {
	case !p.family && sig == syscall.SIGSTOP:
		return child.Stop(p.pid)
	case !p.family, sig == syscall.SIGTERM, sig == syscall.SIGINT: // it ends its children itself
		return syscall.Kill(p.pid, sig)
	}
	err := child.Stop(p.pid) // one that is stopped makes no more children
	children := childrenOf(p.pid)
	for _, child := range children {
		_ = syscall.Kill(child, sig)
	}
	if sig != syscall.SIGSTOP {
		err = syscall.Kill(p.pid, sig)
	}
	if sig == syscall.SIGKILL {
		awaitEnd(children)
	}
	return err
}

// end sends sig, wakes the child in case it is stopped, and waits until it is gone;
// after the time given it is killed.
func (p *process) end(sig syscall.Signal, within time.Duration) error {
	if err := p.signal(sig); errors.Is(err, ErrNotRunning) {
		return nil
	}
	_ = p.signal(syscall.SIGCONT)
	deadline := time.Now().Add(within)
	for killed := sig == syscall.SIGKILL; !p.exited(); time.Sleep(time.Millisecond) {
		if time.Now().Before(deadline) {
			continue
		}
		if killed {
			return fmt.Errorf("process %d is still there %v after SIGKILL", p.pid, within)
		}
		killed, deadline = true, time.Now().Add(within)
		_ = p.signal(syscall.SIGKILL)
	}
	return nil
}

// tail returns the last max bytes of a file, "" if there is none.
func tail(path string, max int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Size() > max {
		_, _ = f.Seek(-max, io.SeekEnd)
	}
	b, _ := io.ReadAll(f)
	return string(b)
}
