//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

// Package fencedfile protects a file that several processes replace from writers whose lock is gone.
//
// Where does the old token come from? It is in the first line of the file. [Write] reads it, compares, and puts a new
// file in the old one's place. So that no other write comes in between, it holds a flock for that moment on a file
// beside it, whose name ends in ".lock". That flock is not the lock that the token is from: it is held for one write, it does
// not know who is late, and the kernel drops it when the process dies. A process that is stopped in the middle of a
// write keeps it, and holds up the others until it goes on.
//
// A new holder writes the file, if only with the content that it has, before it relies on what it reads: until then
// the file does not know of it, and still lets its predecessor write.
//
// All writers need a file system on which flock works between them: a local one on one machine, or a network file system
// that passes it on (NFS since Linux 2.6.12).
package fencedfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// ErrLate is returned to a writer when a later holder of the lock has written the file.
var ErrLate = errors.New("fencedfile: a later holder has written")

// Read returns the content of a file and the token under which it was written. The error is fs.ErrNotExist if there is none.
func Read(path string) (content []byte, token int64, err error) {
	all, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	line, content, found := bytes.Cut(all, []byte("\n"))
	if token, err = strconv.ParseInt(string(line), 10, 64); err != nil || !found {
		return nil, 0, fmt.Errorf("fencedfile: %s does not begin with a token", path)
	}
	return content, token, nil
}

// Write replaces a file, or makes it. It returns ErrLate if the file has a greater token. A reader sees the old
// content or the new, also after a crash.
func Write(path string, token int64, content []byte) error {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which drops the flock
	if err := flock(lock); err != nil {
		return err
	}
	_, old, err := Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if token < old {
		return ErrLate
	}
	return replace(path, append(strconv.AppendInt(nil, token, 10), append([]byte("\n"), content...)...))
}

func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// replace puts a file with this content in the place of path. The flock is held, so nobody else uses the name of the new file.
func replace(path string, content []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
