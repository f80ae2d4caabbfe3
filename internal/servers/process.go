package servers

import (
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/seed80cd6120/locker/internal/child"
)

// startProcess starts the server's program; what it says goes to its log.
func (s *Server) startProcess(bin string, args []string) (*child.Process, error) {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	// A group of its own keeps the terminal's Ctrl-C from it: this process decides.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.user.credential()}
	p, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	p.Family = s.family
	return p, nil
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
