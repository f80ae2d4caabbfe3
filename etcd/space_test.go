package etcd

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// TestNoSpace: without space an acquisition fails and says why, but a release works,
// and the name is free for when there is space again.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		name := map[bool]string{false: "new", true: "old"}[old]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := servers.NewEtcd(t, servers.EtcdOptions{Old: old, Args: []string{"--quota-backend-bytes", "2097152"}})
			c := dial(t, e.Addr())
			l := newLocker(t, c)
			lock, err := l.Acquire(t.Context(), t.Name())
			if err != nil {
				t.Fatal(err)
			}
			waiting := make(chan error, 1)
			next := newLocker(t, c)
			go func() {
				lock, err := next.Acquire(t.Context(), t.Name())
				if err == nil {
					err = lock.Release(t.Context())
				}
				waiting <- err
			}()
			queued(t, c, t.Name(), 2)
			block := strings.Repeat("x", 200<<10)
			for err = nil; err == nil; {
				_, err = c.Put(t.Context(), "fill", block)
			}
			if !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatal(err)
			}
			for _, wait := range []bool{false, true} {
				acquire := l.TryAcquire
				if wait {
					acquire = l.Acquire
				}
				if _, err := acquire(t.Context(), t.Name()+"2"); !errors.Is(err, rpctypes.ErrNoSpace) {
					t.Errorf("acquire without space (wait %v): %v", wait, err)
				}
			}
			if err := lock.Release(t.Context()); err != nil {
				t.Errorf("release without space: %v", err)
			}
			if err := <-waiting; err != nil {
				t.Errorf("who waited: %v", err)
			}
			queued(t, c, t.Name(), 0)
			queued(t, c, t.Name()+"2", 0)
		})
	}
}
