package servers

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// All folders of one process lie in one, locked while the process lives. A process
// that was killed cannot remove its own; the next one does, knowing by the lock that
// nobody uses it.
const dirPrefix = "locker-servers-"

// parent is where that one is made: the folder that DirVariable names, or the one for temporary files.
func parent() string { return cmp.Or(os.Getenv(DirVariable), os.TempDir()) }

// DirVariable is the environment variable that names the folder in which servers keep their data. Tests have one in
// memory: a disk that others use too may stand still for seconds.
const DirVariable = "LOCKER_SERVERS_DIR"

var root struct {
	sync.Mutex
	dir  string
	lock *os.File
	all  []*Server // everything started and not yet closed
}

// newDir makes an empty folder for one server.
func newDir(kind string) (string, error) {
	root.Lock()
	defer root.Unlock()
	if root.dir == "" {
		sweep()
		dir, err := os.MkdirTemp(parent(), dirPrefix)
		if err != nil {
			return "", err
		}
		lock, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
		root.dir, root.lock = dir, lock
	}
	return os.MkdirTemp(root.dir, kind+"-")
}

// sweep removes what processes that ended without doing so left of their servers.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(parent(), dirPrefix+"*"))
	for _, dir := range dirs {
		// A young one may not be locked yet.
		if st, err := os.Stat(dir); err != nil || time.Since(st.ModTime()) < time.Minute {
			continue
		}
		if lock, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			left, _ := filepath.Glob(filepath.Join(dir, "*", "data"))
			for _, data := range left {
				removeSegment(data)
			}
			_ = os.RemoveAll(dir)
			lock.Close()
		}
	}
}

func lockFile(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if err != syscall.EINTR {
			f.Close()
			return nil, err
		}
	}
}

func remember(s *Server) {
	root.Lock()
	defer root.Unlock()
	root.all = append(root.all, s)
}

func forget(s *Server) {
	root.Lock()
	defer root.Unlock()
	root.all = slices.DeleteFunc(root.all, func(x *Server) bool { return x == s })
}

// StopAll closes every server that was started here, the shared ones too, and removes
// what this process has on the disk or in memory. It is for the end of
// TestMain or of a program; on Linux the servers also end without it.
func StopAll() error {
	root.Lock()
	all := slices.Clone(root.all)
	root.Unlock()
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Close())
	}
	root.Lock()
	defer root.Unlock()
	if root.dir != "" && len(root.all) == 0 {
		errs = append(errs, os.RemoveAll(root.dir))
		root.lock.Close()
		root.dir, root.lock = "", nil
	}
	return errors.Join(errs...)
}
