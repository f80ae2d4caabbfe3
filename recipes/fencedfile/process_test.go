//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fencedfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/file"
)

// childDir names, in the environment of a child, the directory that it works in.
const childDir = "FENCEDFILE_TEST_DIR"

// child takes the lock, writes, and writes once more when it is told to, without a look at the lock's context.
func child(dir string) error {
	ctx := context.Background()
	l, err := file.New(filepath.Join(dir, "locks"), locker.WithTTL(time.Second))
	if err != nil {
		return err
	}
	lock, err := l.Acquire(ctx, "state")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "state")
	if err := Write(path, lock.Token(), []byte("first")); err != nil {
		return err
	}
	fmt.Println("written")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	if err := Write(path, lock.Token(), []byte("late")); !errors.Is(err, ErrLate) {
		return fmt.Errorf("the late write: %v", err)
	}
	fmt.Println("refused")
	return nil
}

// A process is stopped past the end of its lock, another takes the lock and writes, and the first goes on and writes.
func TestStoppedProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // if the test fails; a stopped process ends, too
	lines := bufio.NewScanner(stdout)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("the child says %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
	expect("written")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := file.New(filepath.Join(dir, "locks"), locker.WithTTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	lock, err := l.Acquire(ctx, "state")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state")
	if err := Write(path, lock.Token(), []byte("second")); err != nil {
		t.Error(err)
	}

	if _, err := stdin.Write([]byte("go on\n")); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	expect("refused")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if content, token, err := Read(path); string(content) != "second" || token != lock.Token() || err != nil {
		t.Errorf("%q under %d (%v)", content, token, err)
	}
}
