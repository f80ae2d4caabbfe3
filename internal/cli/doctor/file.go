//go:build unix

package doctor

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/file"
	"github.com/seed80cd6120/locker/internal/cli/finding"
)

// minFree is how much space there should be.
const minFree = 1 << 20

// checkFile examines the directory. A network file system is refused when a lock is tried.
func checkFile(_ context.Context, rawURL string) ([]finding.Finding, error) {
	u, err := locker.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	dir := u.Path
	if dir == "" {
		if dir, err = file.DefaultDir(); err != nil {
			return nil, err
		}
	}
	l := &finding.List{Server: dir}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	switch mode := info.Mode(); {
	case !info.IsDir():
		l.Broken("it is no directory", "no lock can be taken", "give another directory")
	case mode.Perm()&0o002 != 0 && mode&os.ModeSticky == 0:
		l.Warn(fmt.Sprintf("everybody may write to it (%v)", mode), "any user can take any lock away", "chmod o-w "+dir)
	default:
		l.OK(fmt.Sprintf("permissions %v", mode))
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Getuid() {
		l.Warn(fmt.Sprintf("it belongs to user %d", owner.Uid), "that user can take any lock away", "use a directory of your own, unless it is meant to be shared")
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil {
		if free := uint64(fs.Bavail) * uint64(fs.Bsize); free < minFree {
			l.Warn(fmt.Sprintf("%d bytes are free", free), "no lock can be taken when there is no space", "make room")
		} else {
			l.OK("there is space")
		}
	}
	return l.Findings, nil
}
