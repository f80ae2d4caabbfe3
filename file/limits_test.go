//go:build linux

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/locktest"
)

// isolated makes cmd one that is root in name spaces of its own, so that what it does to limits and file systems
// concerns nobody else.
func isolated(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

// waitWithoutInotify takes x where there are no inotify instances.
func waitWithoutInotify(ctx context.Context, dir string) error {
	if err := os.WriteFile("/proc/sys/user/max_inotify_instances", []byte("0"), 0); err != nil {
		return err
	}
	if fd, err := syscall.InotifyInit1(0); err == nil {
		return fmt.Errorf("there are inotify instances: %d", fd)
	}
	return hold(ctx, dir)
}

// Waiters for whom there is no inotify instance look by themselves, and see a release and a death soon.
func TestNoInotify(t *testing.T) {
	dir := t.TempDir()
	l := newLocker(t, dir)
	first := acquire(t, l, "x")
	a := run(t, isolated(command(t, "slow look", dir)))
	queued(t, l, "x", 2)
	b := run(t, isolated(command(t, "slow look", dir)))
	queued(t, l, "x", 3)
	release(t, first)
	winner, loser := a, b
	winner.says("held")
	_ = winner.cmd.Process.Kill()
	loser.says("held")
}

// fullDisk makes a small file system, fills it, and says what comes of a Locker there.
func fullDisk(ctx context.Context, dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,nr_inodes=20"); err != nil {
		return err
	}
	l, err := New(dir, locker.WithTTL(30*time.Second))
	if err != nil {
		return err
	}
	held, err := l.Acquire(ctx, "held")
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), make([]byte, 4096), 0o600) != nil {
			break
		}
	}
	for i := 100; os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600) == nil; i++ {
	}
	_, err = l.Acquire(ctx, "x")
	fmt.Println("full:", errors.Is(err, syscall.ENOSPC) && strings.Contains(err.Error(), dir), err)
	for until := held.Deadline(); held.Deadline().Sub(until) < time.Second; { // it is renewed all the same: that needs no space
		if held.Context().Err() != nil {
			return context.Cause(held.Context())
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("released:", held.Release(ctx))
	if err := os.Remove(filepath.Join(dir, "0")); err != nil {
		return err
	}
	lock, err := l.Acquire(ctx, "x")
	if err != nil {
		return err
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err == nil {
		return errors.New("remounted although a file is open for writing")
	}
	if err := lock.Release(ctx); err != nil {
		return err
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	_, err = l.Acquire(ctx, "x")
	fmt.Println("read-only:", errors.Is(err, syscall.EROFS) && strings.Contains(err.Error(), dir), err)
	_, err = New(filepath.Join(dir, "below"))
	fmt.Println("new:", errors.Is(err, syscall.EROFS) && strings.Contains(err.Error(), dir), err)
	return nil
}

// Where nothing can be written the error says so and where, at once; what is held stays held and can be released.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	p := run(t, isolated(command(t, "full", t.TempDir())))
	for _, what := range []string{"full:", "released:", "read-only:", "new:"} {
		if got := p.says(what); !strings.HasPrefix(got, "true") && got != "<nil>" {
			t.Errorf("%s %s", what, got)
		}
	}
}

// unprepared is run by a user who may not use the directory.
func unprepared(ctx context.Context, dir string) error {
	_, err := New(dir)
	var known *locker.Error
	fmt.Println("refused:", errors.Is(err, fs.ErrPermission) && errors.As(err, &known) && known.Op == "open", err)
	return nil
}

// A directory is its user's own, and another user is told so.
func TestPermission(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	newLocker(t, dir)
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v", info.Mode())
	}
	if os.Getuid() != 0 {
		t.Skip("needs another user to be")
	}
	if got := spawnAs(t, 65534, program(t), "unprepared", dir).says("refused:"); !strings.HasPrefix(got, "true") {
		t.Error(got)
	}
}

// program copies the test's own program to where other users find it; it returns the path.
func program(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(os.Args[0])
	must(t, err)
	dir := openDir(t, 0o755)
	path := filepath.Join(dir, "program")
	must(t, os.WriteFile(path, text, 0o755))
	return path
}

// openDir makes a directory outside those of the test, which only its user can enter.
func openDir(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "locker-file")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, mode)
	}
	must(t, err)
	return dir
}

// spawnAs is spawn as another user.
func spawnAs(t *testing.T, user uint32, program, do, dir string) *process {
	t.Helper()
	cmd := command(t, do, dir)
	cmd.Path, cmd.Dir = program, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	return run(t, cmd)
}

// holdPrivately takes x and holds it until standard input is closed. What it makes is for its user alone, as far as that
// depends on the umask.
func holdPrivately(ctx context.Context, dir string) error {
	syscall.Umask(0o077)
	l, err := New(dir)
	if err != nil {
		return err
	}
	lock, err := l.Acquire(ctx, "x")
	if err != nil {
		return err
	}
	fmt.Println("holds:", lock.Token())
	ended()
	return errors.Join(lock.Release(ctx), l.Close(ctx))
}

// In a directory to which several users may write they lock with each other, whatever their umask.
func TestSeveralUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs other users to be")
	}
	for _, mode := range []fs.FileMode{0o777, 0o777 | fs.ModeSticky} {
		program, dir := program(t), openDir(t, mode)
		first := spawnAs(t, 65534, program, "privately", dir)
		token := first.says("holds:")
		second := spawnAs(t, 65533, program, "privately", dir)
		l := newLocker(t, dir)
		queued(t, l, "x", 2)
		must(t, first.in.Close())
		if next := second.says("holds:"); next <= token {
			t.Errorf("%v: token %s after %s", mode, next, token)
		}
		if err := second.cmd.Process.Kill(); err != nil { // the first removes its ticket
			t.Fatal(err)
		}
		spawnAs(t, 65534, program, "privately", dir).says("holds:")
	}
}

// A file system on which locks cannot be relied on is refused. There is none here, so one that is here stands for it.
func TestNetworkFileSystem(t *testing.T) {
	dir := t.TempDir()
	var st syscall.Statfs_t
	must(t, syscall.Statfs(dir, &st))
	kind := uint32(st.Type)
	if remote[kind] != "" {
		t.Fatalf("%s is on %s", dir, remote[kind])
	}
	remote[kind] = "NFS"
	defer delete(remote, kind)
	_, err := New(dir)
	var known *locker.Error
	if !errors.As(err, &known) || known.Op != "open" {
		t.Error(err)
	} else if text := err.Error(); !strings.Contains(text, "NFS") || !strings.Contains(text, dir) {
		t.Error(err)
	}
}

// idleShare is how much of a processor each process that waits may use.
var idleShare = 0.0001

// Processes that wait for one name use less than a hundredth of a percent of a processor each. There are not more of them so that
// there are inotify instances left for other tests: a user has 128 as a rule, and who gets none looks again and again.
func TestIdleWaiters(t *testing.T) {
	if testing.Short() {
		t.Skip("measures processes for ten seconds")
	}
	const many = 25
	dir := t.TempDir()
	l := newLocker(t, dir)
	acquire(t, l, "x")
	var procs []*process
	for range many {
		procs = append(procs, spawn(t, "idle", dir))
	}
	queued(t, l, "x", many+1)
	var pids []int
	for _, p := range procs {
		pids = append(pids, p.cmd.Process.Pid)
	}
	locktest.Idle(t, idleShare, pids...)
}

// idle waits for x with the usual TTL.
func idle(ctx context.Context, dir string) error {
	l, err := New(dir)
	if err != nil {
		return err
	}
	_, err = l.Acquire(ctx, "x")
	return err
}
