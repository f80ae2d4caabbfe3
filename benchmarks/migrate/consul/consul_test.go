//go:build consul

package consul_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/sidebyside"
	"github.com/seed80cd6120/locker/memory"
)

const (
	name    = "orders/42"
	patient = sidebyside.Patient
)

var must = locktest.Must

// start starts a Consul of its own and returns a client of it.
func start(t *testing.T) *api.Client {
	binary, err := exec.LookPath("consul")
	if err != nil {
		t.Fatal("consul is missing: make consul builds it and runs this")
	}
	dir := t.TempDir()
	var ports [3]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
		must(t, l.Close())
	}
	config := fmt.Sprintf(`{"ports": {"dns": -1, "grpc": -1, "serf_wan": -1, "http": %d, "server": %d, "serf_lan": %d}}`, ports[0], ports[1], ports[2])
	path := filepath.Join(dir, "config.json")
	must(t, os.WriteFile(path, []byte(config), 0o600))
	cmd := exec.Command(binary, "agent", "-dev", "-bind=127.0.0.1", "-client=127.0.0.1", "-config-file="+path)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	client, err := api.NewClient(&api.Config{Address: fmt.Sprintf("127.0.0.1:%d", ports[0])})
	must(t, err)
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

func TestConsul(t *testing.T) {
	client := start(t)
	l, err := memory.New()
	must(t, err)
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
	t.Run("old before both", func(t *testing.T) { sidebyside.Exclude(t, old, both) })
	t.Run("both before old", func(t *testing.T) { sidebyside.Exclude(t, both, old) })
	t.Run("both before new", func(t *testing.T) { sidebyside.Exclude(t, both, newOnly) })
	t.Run("new before both", func(t *testing.T) { sidebyside.Exclude(t, newOnly, both) })
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
