package servers

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/internal/locktest"
)

const childEnv = "LOCKER_SERVERS_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		runtime.LockOSThread() // the first thread never ends: keep it out of this
		go startServer()
		select {}
	}
	// What is tested here is the starting.
	for _, env := range []string{EnvRedis, EnvZooKeeper, EnvEtcd} {
		os.Unsetenv(env)
	}
	code := m.Run()
	if err := StopAll(); err != nil {
		fmt.Println("StopAll:", err)
		code = 1
	}
	if code == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := Poll(ctx, func(context.Context) error { return goleak.Find() })
		cancel()
		if err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// startServer starts a server, ends threads as fast as it can, says where the server is, and
// waits to be killed.
func startServer() {
	r, err := StartRedis(context.Background(), RedisOptions{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for range 10 {
		endThreads(64)
	}
	fmt.Println(r.Addr(), r.PID(), filepath.Dir(r.Dir()))
	select {}
}

// endThreads ends threads: more at once than there are idle ones, so that any of those
// may be among them.
func endThreads(n int) {
	var locked, ended sync.WaitGroup
	end := make(chan struct{})
	for range n {
		locked.Add(1)
		ended.Go(func() {
			runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
			locked.Done()
			<-end
		})
	}
	locked.Wait()
	close(end)
	ended.Wait()
	// The thread is gone a moment after its goroutine.
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(pollEvery) {
		if threads, _ := filepath.Glob("/proc/self/task/*"); len(threads) < n {
			return
		}
	}
}

func TestServersEndWithTheirProcess(t *testing.T) {
	Need(t)
	t.Setenv(DirVariable, t.TempDir())
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	killed := false
	defer func() {
		if !killed {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	var addr, dir string
	var pid int
	if _, err2 := fmt.Sscan(line, &addr, &pid, &dir); err != nil || err2 != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	if conn, err := net.Dial("tcp", addr); err != nil {
		t.Fatal(err)
	} else {
		conn.Close()
	}

	must(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	killed = true
	must(t, Poll(locktest.Within(t, time.Minute), func(context.Context) error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return fmt.Errorf("the server at %s, process %d, outlives the process that started it", addr, pid)
		}
		return nil
	}))

	// What it left behind is removed by the next who comes, unless it is quite new.
	now := time.Now()
	must(t, os.Chtimes(dir, now, now))
	sweep()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a new folder was removed: %v", err)
	}
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(dir, long, long))
	sweep()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a dead process was left: %v", err)
	}
}

func TestSweepSparesTheLiving(t *testing.T) {
	t.Setenv(DirVariable, t.TempDir())
	dir, err := os.MkdirTemp(parent(), dirPrefix)
	must(t, err)
	lock, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_EX)
	must(t, err)
	defer lock.Close()
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(dir, long, long))
	sweep()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the folder of a living process was removed: %v", err)
	}
}

func TestStartSaysWhyItFailed(t *testing.T) {
	Need(t)
	_, err := StartRedis(locktest.Within(t, 20*time.Second), RedisOptions{Args: []string{"--no-such-option", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("error: %v", err)
	}
}

func TestStartRespectsItsContext(t *testing.T) {
	Need(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	inTime := locktest.Limit(t, 5*time.Second)
	if _, err := StartRedis(ctx, RedisOptions{Args: []string{"--maxclients", "10"}}); err == nil {
		t.Error("a start with a finished context succeeded")
	}
	inTime("a start with a finished context")
}
