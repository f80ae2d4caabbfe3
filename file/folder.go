package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// folder is the directory of a Locker. What Lockers make in it gets its permissions, whatever the umask, so that the users who
// may write to it can lock with each other.
type folder struct {
	path string
	mode fs.FileMode // permissions, and whether files get its group
}

// shared reports whether others than its user may write to the folder.
func (f folder) shared() bool { return f.mode&0o022 != 0 }

// mkdirAll makes a directory in the folder, if it is not there, and those above it.
func (f folder) mkdirAll(path string) error {
	err := f.mkdir(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) { // it was removed
		if err := os.MkdirAll(f.path, 0o700); err != nil {
			return err
		}
		_ = os.Chmod(f.path, f.mode)
	}
	if err := f.mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	return f.mkdir(path)
}

// mkdir makes a directory in the folder, if it is not there; the one above has to be.
func (f folder) mkdir(path string) error {
	if !f.shared() {
		err := os.Mkdir(path, 0o777)
		if errors.Is(err, fs.ErrExist) {
			return nil // os.MkdirAll fails if it is gone again when it looks
		}
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	// Nobody may find the directory before it has its permissions.
	made, err := os.MkdirTemp(filepath.Join(f.path, "new"), "") // where sweep removes what a process that died has left
	if errors.Is(err, fs.ErrNotExist) {
		made, err = os.MkdirTemp(f.path, "new-")
	}
	if err != nil {
		return err
	}
	if err = os.Chmod(made, f.mode); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		_ = os.Remove(made)
		if _, other := os.Lstat(path); other == nil {
			return nil // somebody else was faster
		}
	}
	return err
}
