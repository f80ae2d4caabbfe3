package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// Servers that refuse to run as root run as a user of their own, to whom their folder belongs.

// owned is a server that runs as a user of its own.
type owned struct {
	kind, user string
	args       []string
	prepare    func(*Server) error // says what it is and makes its data
	setUp      func() error        // called when it serves; may be nil
}

// start starts the server, and closes it if that fails.
func (o owned) start(ctx context.Context) error {
	u, err := otherThanRoot(o.user)
	if err != nil {
		return err
	}
	_, err = retryPorts(func() (*Server, error) {
		s, err := newServer(o.kind, 1, o.args)
		if err != nil {
			return nil, err
		}
		s.user = u
		if err = s.giveAway(); err == nil {
			err = o.prepare(s)
		}
		if err == nil {
			err = startTogether(ctx, s.servers())
		}
		if err == nil && o.setUp != nil {
			err = o.setUp()
		}
		if err != nil {
			err = errors.Join(err, s.Close())
		}
		return s, err
	})
	return err
}

// giveAway lets the user of the server into its folder.
func (s *Server) giveAway() error {
	return errors.Join(os.Chmod(filepath.Dir(s.dir), 0o711), s.user.own(s.dir))
}

// run runs a program as the user of the server, in its folder.
func (s *Server) run(cmd *exec.Cmd) error {
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out))
	}
	return nil
}

// template returns what returns the folder of an empty database. It is made, which takes seconds, once for all servers
// of this process.
func template(program, name string, fill func(*Server) error) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		u, err := otherThanRoot(name)
		if err != nil {
			return "", err
		}
		dir, err := newDir(program)
		if err != nil {
			return "", err
		}
		s := &Server{dir: dir, data: filepath.Join(dir, "data"), user: u}
		if err := s.giveAway(); err != nil {
			return "", err
		}
		return s.data, fill(s)
	})
}

// copyOf makes the data of the server a copy of a template.
func (s *Server) copyOf(ctx context.Context, template func() (string, error)) error {
	from, err := template()
	if err != nil {
		return err
	}
	return s.run(exec.CommandContext(ctx, "cp", "-R", from, s.data))
}
