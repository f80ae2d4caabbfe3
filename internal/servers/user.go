package servers

import (
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"strconv"
	"syscall"
)

// user is somebody else than root, for programs that refuse to run as root.
type user struct{ uid, gid uint32 }

// otherThanRoot returns the user of that name, if this process runs as root, and nil if it does
// not.
func otherThanRoot(name string) (*user, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := osuser.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	return &user{uint32(uid), uint32(gid)}, nil
}

func (u *user) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.uid, Gid: u.gid}
}

// own gives a file or a folder to the user.
func (u *user) own(path string) error {
	if u == nil {
		return nil
	}
	return os.Chown(path, int(u.uid), int(u.gid))
}
