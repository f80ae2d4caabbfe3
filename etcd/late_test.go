package etcd

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestLateRequest: a request that put a key, was given up and cleaned up after, and
// arrives only then, has no effect. The client has two ways to the server, of which
// one freezes.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	admin := dial(t, e.Addr())
	slow, fast := front(t, e.Addr()), front(t, e.Addr())
	b := driverOf(t, dial(t, slow.Addr(), fast.Addr()))
	b.impatient(150 * time.Millisecond)
	eventually.Is(t, "both ways open", func() bool {
		c := take(t, b, "warm")
		if err := b.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return slow.Stats().Open > 0 && fast.Stats().Open > 0
	})
	late := 0
	for try := 0; late < 12; try++ {
		if try > 200 {
			t.Fatalf("only %d of %d requests took the slow way", late, try)
		}
		slow.FreezeUp()
		c := claim(t.Name(), try%2 == 0)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := b.Acquire(ctx, c)
		cancel()
		if err == nil {
			slow.Heal()
			if err := b.Release(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			// Requests take the two ways in turn: change step.
			if _, err := b.client.Get(t.Context(), "step"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		late++
		eventually.Is(t, "clean-up over the fast way", func() bool { return b.Abandon(t.Context(), c) == nil })
		slow.Heal()
		eventually.Is(t, "late request delivered", func() bool { return slow.Stats().HeldUp == 0 })
		for range 4 { // both ways, behind it
			if _, err := b.client.Get(t.Context(), "barrier"); err != nil {
				t.Fatal(err)
			}
		}
		if keys := under(t, admin, t.Name()); len(keys) > 0 {
			t.Fatalf("the late request left %v", keys)
		}
	}
	// And the fence lets through what was sent after it was moved.
	c := take(t, b, t.Name())
	if err := b.Release(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestLostReply: who is in the queue already, by a request whose answer was lost,
// recognises itself and is not put there twice.
func TestLostReply(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	p := front(t, e.Addr())
	b := driverOf(t, dial(t, p.Addr()))
	take(t, b, t.Name()+"session")
	for _, wait := range []bool{true, false} {
		name := t.Name()
		p.SwallowReply(func(request []byte) bool { return bytes.Contains(request, []byte(name+"/")) }, 50*time.Millisecond)
		c := claim(name, wait)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		g, err := b.Acquire(ctx, c)
		cancel()
		if err != nil {
			t.Fatalf("wait %v: %v", wait, err)
		}
		if n := p.Stats().Swallowed; n == 0 {
			t.Fatal("no reply was swallowed")
		}
		r, err := admin.Get(t.Context(), b.queueOf(name), clientv3.WithPrefix())
		if err != nil || len(r.Kvs) != 1 || r.Kvs[0].CreateRevision != g.Token {
			t.Errorf("wait %v: token %d, keys %v %v", wait, g.Token, r.Kvs, err)
		}
		if err := b.Release(t.Context(), c); err != nil {
			t.Errorf("wait %v: release: %v", wait, err)
		}
	}
}

// TestPlainDelete: what takes the place of the transaction where that is refused for
// want of space.
func TestPlainDelete(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	p := front(t, e.Addr())
	b := driverOf(t, dial(t, p.Addr()))
	b.impatient(200 * time.Millisecond)
	c := take(t, b, t.Name())
	first := c.State.(*entry)
	p.Freeze()
	if err := b.deletePlain(t.Context(), first); err == nil {
		t.Error("an answer although the network is frozen")
	}
	p.Heal()
	// What was frozen may have had its effect by now, or never will, since it was given up.
	eventually.Is(t, "nothing left to delete", func() bool {
		return errors.Is(b.deletePlain(t.Context(), first), driver.ErrGone)
	})
	queued(t, admin, t.Name(), 0)
	b.forget(first)
	// It might come once more: nobody has this key again.
	if next := take(t, b, t.Name()).State.(*entry); next.key == first.key {
		t.Error("the key is used again")
	}
}

// TestCancelledOnStalledServer: who gives up returns at once, although cleaning up has to
// wait for the server.
func TestCancelledOnStalledServer(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	p := front(t, servers.SharedEtcd(t).Addr())
	holder := newLocker(t, c)
	held, err := holder.Acquire(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	waiter := newLocker(t, dial(t, p.Addr()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := waiter.Acquire(ctx, t.Name())
		done <- err
	}()
	queued(t, c, t.Name(), 2)
	p.Freeze()
	cancelled := time.Now()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if d := time.Since(cancelled); d > time.Second {
		t.Errorf("returned %v after the cancellation", d)
	}
	p.Heal()
	queued(t, c, t.Name(), 1)
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
