package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestLeases(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	l := open(t, []string{z.Addr()}, locker.WithTTL(locker.DefaultTTL))
	n := name(t)
	start := time.Now()
	lock, err := l.Acquire(within(t, time.Minute), n, locker.WithLease(14*time.Second)) // longer than the session
	must(t, err)
	next, err := open(t, []string{z.Addr()}).Acquire(within(t, time.Minute), n)
	must(t, err)
	if took := time.Since(start); took < 13500*time.Millisecond {
		t.Errorf("over after %v", took)
	}
	if !errors.Is(context.Cause(lock.Context()), locker.ErrLost) {
		t.Errorf("cause: %v", context.Cause(lock.Context()))
	}
	_ = next.Release(context.Background())
}

// A lease that outlasts the session ends with it.
func TestLeaseOverFrozenConnection(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	p := front(t, z.Addr())
	l := open(t, []string{p.Addr()}, locker.WithTTL(2*time.Second))
	n := name(t)
	lock, err := l.Acquire(within(t, time.Minute), n, locker.WithLease(time.Hour))
	must(t, err)
	p.Freeze()
	next, err := open(t, []string{z.Addr()}).Acquire(within(t, time.Minute), n)
	must(t, err)
	if lock.Context().Err() == nil {
		t.Error("two hold")
	}
	_ = next.Release(context.Background())
	p.Heal()
}
