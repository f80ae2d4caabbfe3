//go:build unix

package job

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of this process; nil if it has none. All methods do nothing then.
type terminal struct {
	file *os.File
	own  group // of this process
}

// openTerminal returns the controlling terminal, or nil.
func openTerminal() *terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{file, group(syscall.Getpgrp())}
}

func (t *terminal) close() {
	if t != nil {
		_ = t.file.Close()
	}
}

// give puts a group in the foreground if this process is there; false if it is not.
func (t *terminal) give(g group) bool {
	return t != nil && t.foreground() == t.own && t.setForeground(g) == nil
}

// isWith reports whether a group is in the foreground.
func (t *terminal) isWith(g group) bool { return t != nil && t.foreground() == g }

// takeBack puts this process in the foreground if the group g is there, which has ended.
func (t *terminal) takeBack(g group) {
	if t == nil || t.foreground() != g {
		return
	}
	// A process in the background that sets the foreground group gets SIGTTOU.
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = t.setForeground(t.own)
}

// foreground returns the group in the foreground, 0 if it is not known.
func (t *terminal) foreground() group {
	pgid, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group(pgid)
}

func (t *terminal) setForeground(g group) error {
	return unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, int(g))
}

// IsTerminal reports whether f is the controlling terminal of this process.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}
