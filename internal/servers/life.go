package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/seed80cd6120/locker/internal/child"
)

// givenServer is one that was not started here.
func givenServer(kind, addr string) *Server { return &Server{kind: kind, addr: addr, given: true} }

// newServer reserves what a server that is started here needs.
func newServer(kind string, ports int, args []string) (*Server, error) {
	dir, err := newDir(kind)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", kind, err)
	}
	s := &Server{kind: kind, dir: dir, data: filepath.Join(dir, "data"), args: args}
	if s.ports, err = newPorts(ports); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", kind, err), os.RemoveAll(dir))
	}
	s.addr = s.ports[0].addr()
	remember(s)
	return s, nil
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "log") }

// configure writes a file of the server's configuration and returns its path.
func (s *Server) configure(name string, lines []string) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (s *Server) check(action string) error {
	if s.given {
		return fmt.Errorf("%s %s at %s: %w", action, s.kind, s.addr, ErrNotOurs)
	}
	return nil
}

func (s *Server) signal(sig syscall.Signal) error {
	if err := s.check(sig.String()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || !s.proc.Running() {
		return fmt.Errorf("%v to %s at %s: %w", sig, s.kind, s.addr, ErrNotRunning)
	}
	return s.proc.Signal(sig)
}

func (s *Server) end(sig syscall.Signal) error {
	if err := s.check("end"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endLocked(sig)
}

func (s *Server) endLocked(sig syscall.Signal) error {
	if s.proc == nil {
		return nil
	}
	within := stopTimeout
	if sig == syscall.SIGTERM && s.family {
		sig = syscall.SIGINT // PostgreSQL waits for its clients to leave after SIGTERM
		within = time.Minute // killed, it would lose what it has not written
	}
	if err := s.proc.End(sig, within); err != nil {
		return fmt.Errorf("end %s at %s: %w", s.kind, s.addr, err)
	}
	s.proc = nil
	return nil
}

func (s *Server) restart(ctx context.Context, empty bool) error {
	action := "restart"
	if empty {
		action = "restart empty"
	}
	if err := s.check(action); err != nil {
		return err
	}
	if empty && s.notEmpty != "" {
		return fmt.Errorf("%s %s at %s: %s", action, s.kind, s.addr, s.notEmpty)
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.endLocked(syscall.SIGTERM); err != nil {
		return err
	}
	if empty {
		if err := os.RemoveAll(s.data); err != nil {
			return fmt.Errorf("%s %s: %w", action, s.kind, err)
		}
	}
	return s.startLocked(ctx)
}

// startLocked starts the process and returns when it listens.
func (s *Server) startLocked(ctx context.Context) error {
	if s.gone {
		return fmt.Errorf("start %s: closed", s.kind)
	}
	if err := errors.Join(os.MkdirAll(s.data, 0o700), s.user.own(s.data)); err != nil {
		return fmt.Errorf("start %s: %w", s.kind, err)
	}
	if s.starting != nil {
		s.starting()
	}
	bin, args, err := s.command()
	if err != nil {
		return err
	}
	proc, err := s.startProcess(bin, append(args, s.args...))
	if err != nil {
		return fmt.Errorf("start %s: %w", s.kind, err)
	}
	s.proc = proc
	err = Poll(ctx, func(context.Context) error {
		if !proc.Running() {
			log := s.Log()
			if strings.Contains(log, "ddress already in use") {
				return final(fmt.Errorf("%w: %s", errPortTaken, log))
			}
			return final(fmt.Errorf("it ended (%v); its log ends:\n%s", proc.Err(), log))
		}
		return s.ports[0].ownedBy(proc.PID())
	})
	if err != nil {
		_ = s.endLocked(syscall.SIGKILL)
		return fmt.Errorf("start %s at %s: %w", s.kind, s.addr, err)
	}
	if s.respawn {
		go s.startAgain(proc)
	}
	return nil
}

// startAgain starts the server anew when its process ends by itself, as a service manager does.
func (s *Server) startAgain(proc *child.Process) {
	<-proc.Ended()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != proc { // it was ended here
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
	defer cancel()
	_ = s.startLocked(ctx) // its log says why not
}

// start brings a new server up for the first time and returns when it listens.
func (s *Server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startLocked(ctx)
}
