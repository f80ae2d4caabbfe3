// Package consul_test shows what docs/migrate/consul.md says: that programs with Consul's lock and with the new one
// exclude each other during a migration.
//
// It needs a consul in the PATH, of any version, and is skipped without. The last one that can be built from modules is
// (in an empty folder, with GOFLAGS=-mod=mod)
//
//	go mod init example
//	go get github.com/hashicorp/consul@v1.10.12 github.com/hashicorp/consul/api@v1.13.0 github.com/hashicorp/consul/sdk@v0.11.0
//	go build -o consul github.com/hashicorp/consul
package consul_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

const (
	name    = "orders/42"
	patient = time.Minute // beyond it nothing will come
	// disturbed is for how long somebody holds while another tries to.
	disturbed = 300 * time.Millisecond
)

// start starts a Consul of its own and returns a client of it.
func start(t *testing.T) *api.Client {
	binary, err := exec.LookPath("consul")
	if err != nil {
		t.Skip("consul is missing: see the comment of this package")
	}
	dir := t.TempDir()
	var ports [3]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`{"ports": {"dns": -1, "grpc": -1, "serf_wan": -1, "http": %d, "server": %d, "serf_lan": %d}}`, ports[0], ports[1], ports[2])
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "agent", "-dev", "-bind=127.0.0.1", "-client=127.0.0.1", "-config-file="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	client, err := api.NewClient(&api.Config{Address: fmt.Sprintf("127.0.0.1:%d", ports[0])})
	if err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		leader, err := client.Status().Leader()
		if err == nil && leader != "" {
			return client
		}
		if time.Since(begun) > patient {
			t.Fatalf("consul does not come up: %v", err)
		}
	}
}

// program runs work while it holds the lock on name in its own way.
type program func(ctx context.Context, work func(context.Context) error) error

func TestConsul(t *testing.T) {
	client := start(t)
	l, err := memory.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	old := func(ctx context.Context, work func(context.Context) error) error {
		return withConsul(ctx, client, work)
	}
	both := func(ctx context.Context, work func(context.Context) error) error {
		return withBoth(ctx, client, l, work)
	}
	newOnly := func(ctx context.Context, work func(context.Context) error) error {
		return locker.Do(ctx, l, name, func(ctx context.Context, lock *locker.Lock) error {
			return work(ctx)
		})
	}
	t.Run("old before both", func(t *testing.T) { exclude(t, old, both) })
	t.Run("both before old", func(t *testing.T) { exclude(t, both, old) })
	t.Run("both before new", func(t *testing.T) { exclude(t, both, newOnly) })
	t.Run("new before both", func(t *testing.T) { exclude(t, newOnly, both) })
}

// withConsul runs work under a lock of Consul, as a program does that looks for no loss.
func withConsul(ctx context.Context, client *api.Client, work func(context.Context) error) error {
	lock, err := client.LockKey("locks/" + name)
	if err != nil {
		return err
	}
	if lost, err := lock.Lock(ctx.Done()); err != nil || lost == nil {
		return errors.Join(err, ctx.Err())
	}
	defer lock.Unlock()
	return work(ctx)
}

// withBoth runs work under a lock of Consul and one of l.
func withBoth(ctx context.Context, client *api.Client, l locker.Locker, work func(context.Context) error) error {
	lock, err := client.LockKey("locks/" + name)
	if err != nil {
		return err
	}
	lost, err := lock.Lock(ctx.Done())
	if err != nil || lost == nil { // nil: ctx has ended
		return errors.Join(err, ctx.Err())
	}
	defer lock.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	return locker.Do(ctx, l, name, func(ctx context.Context, lock *locker.Lock) error {
		return work(ctx)
	})
}

// exclude fails the test unless second gets the name after first has let it go, and not before.
func exclude(t *testing.T, first, second program) {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	var holds atomic.Bool
	begun, end := make(chan struct{}), make(chan struct{})
	ended, done := make(chan error, 1), make(chan error, 1)
	go func() {
		ended <- first(ctx, func(context.Context) error {
			holds.Store(true)
			defer holds.Store(false)
			close(begun)
			<-end
			return nil
		})
	}()
	select {
	case <-begun:
	case err := <-ended:
		t.Fatal("the first did not get the name: ", err)
	}
	go func() {
		done <- second(ctx, func(context.Context) error {
			if holds.Load() {
				return errors.New("both hold")
			}
			return nil
		})
	}()
	select {
	case err := <-done:
		t.Error("the second did not wait: ", err)
		done <- err
	case <-time.After(disturbed):
	}
	close(end)
	if err := errors.Join(<-ended, <-done); err != nil {
		t.Error(err)
	}
}
