package servers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
)

func TestPostgres(t *testing.T) {
	ctx := t.Context()
	p := NewPostgres(t, PostgresOptions{})
	standby := NewPostgresStandby(t, p)
	bouncer := NewPgBouncer(t, p)
	if err := allReady(ctx, []*Server{p.Server, standby.Server, bouncer.Server}); err != nil {
		t.Error(err)
	}
	if err := standby.Promote(ctx); err != nil {
		t.Errorf("promote: %v", err)
	}

	// All processes of a paused server stop, also one that serves a client by now.
	must(t, p.Pause())
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := postgresAnswers(short, p.Addr()); err == nil {
		t.Error("a paused server answers")
	}
	must(t, p.Resume(), p.WaitReady(ctx))
	for _, stop := range []func() error{p.Kill, p.Stop} {
		must(t, stop(), p.Restart(ctx))
	}

	// A pooler that has crashed is started again; one that was stopped is not.
	crashed := bouncer.PID()
	must(t, syscall.Kill(crashed, syscall.SIGKILL))
	eventually.Is(t, "a pooler that has crashed is started again", func() bool {
		pid := bouncer.PID()
		return pid != 0 && pid != crashed
	})
	must(t, bouncer.WaitReady(ctx), bouncer.Stop())
	time.Sleep(500 * time.Millisecond) // in which nothing may happen
	if pid := bouncer.PID(); pid != 0 {
		t.Errorf("process %d of a pooler that was stopped", pid)
	}

	// It asks for the password that it was given.
	if guarded := NewPostgres(t, PostgresOptions{Password: "secret"}); guarded.URL() == postgresURL(guarded.Addr(), "") {
		t.Error("no password in", guarded.URL())
	}
}

// TestPostgresLeavesNoSharedMemory: what a server has in shared memory is removed when it is closed. When the process that started
// it was killed, the next removes it with the folder.
func TestPostgresLeavesNoSharedMemory(t *testing.T) {
	p, left := NewPostgres(t, PostgresOptions{}), NewPostgres(t, PostgresOptions{})
	closed, killed := p.PID(), left.PID()
	if !hasSharedMemory(t, closed) || !hasSharedMemory(t, killed) {
		t.Fatal("a server has no shared memory")
	}
	must(t, p.Close())
	// It is there until the last process of the server has ended.
	eventually.Is(t, "shared memory is removed when its server is closed", func() bool { return !hasSharedMemory(t, closed) })
	must(t, left.Kill())
	t.Setenv(DirVariable, t.TempDir())
	dir, long := filepath.Join(parent(), dirPrefix+"left"), time.Now().Add(-time.Hour)
	data := filepath.Join(dir, "postgres", "data")
	must(t, os.MkdirAll(filepath.Dir(data), 0o700), os.CopyFS(data, os.DirFS(left.data)), os.Chtimes(dir, long, long))
	sweep()
	eventually.Is(t, "shared memory is removed with the folder", func() bool { return !hasSharedMemory(t, killed) })
}

// hasSharedMemory reports whether shared memory is there that a process has created.
func hasSharedMemory(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Skip("the system does not tell: ", err)
	}
	return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
		columns := strings.Fields(line)
		return len(columns) > 4 && columns[4] == strconv.Itoa(pid)
	})
}
