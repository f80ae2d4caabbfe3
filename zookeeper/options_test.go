package zookeeper

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestOptionsThatCannotBeHonoured(t *testing.T) {
	for what, try := range map[string]struct {
		servers []string
		opt     locker.Option
	}{
		"no servers":     {servers: nil},
		"empty server":   {servers: []string{""}},
		"connect string": {servers: []string{"a:1,b:2"}},
		"chroot":         {opt: WithChroot("app")},
		"chroot end":     {opt: WithChroot("/app/")},
		"chroot within":  {opt: WithChroot("/locker/orders")},
		"empty ACL":      {opt: WithACL()},
		"nil TLS":        {opt: WithTLS(nil)},
		"TTL":            {opt: locker.WithTTL(0)},
		"nil":            {opt: nil},
	} {
		addrs, opts := []string{"127.0.0.1:1"}, []locker.Option{try.opt}
		if strings.Contains(what, "server") || what == "connect string" {
			addrs, opts = try.servers, nil
		}
		l, err := Connect(context.Background(), addrs, opts...)
		if !errors.Is(err, locker.ErrInvalidOption) || l != nil {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Connect(ended, []string{"127.0.0.1:1"}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

func TestChrootsHaveNothingToDoWithEachOther(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	n := name(t)
	a, b := open(t, []string{z.Addr()}, WithChroot("/deep/er/a")), open(t, []string{z.Addr()}, WithChroot("/deep/er/b"))
	first, err := a.Acquire(within(t, time.Minute), n)
	must(t, err)
	second, err := b.TryAcquire(within(t, time.Minute), n)
	must(t, err)
	if there, _, err := op.Exists(queuePath("/deep/er/a"+folder, n)); !there {
		t.Errorf("the queue is not where it was asked for: %v", err)
	}
	other := open(t, []string{z.Addr()}, WithChroot("/deep/er/a"))
	if _, err := other.TryAcquire(within(t, time.Minute), n); !errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("same chroot: %v", err)
	}
	_, _ = first.Release(context.Background()), second.Release(context.Background())
}
