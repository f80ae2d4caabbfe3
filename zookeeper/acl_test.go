package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// An ACL that does not let its own Locker work is found out before anything is made with it, so that
// everybody else can go on, and Close has nothing to wait for.
func TestRefusedACLLeavesNothing(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for what, acl := range map[string][]zk.ACL{
		"no write":  zk.WorldACL(zk.PermAll &^ zk.PermWrite),
		"no read":   zk.WorldACL(zk.PermAll &^ zk.PermRead),
		"no create": zk.WorldACL(zk.PermAll &^ zk.PermCreate),
		"no delete": zk.WorldACL(zk.PermAll &^ zk.PermDelete),
		"no auth":   zk.AuthACL(zk.PermAll), // and nobody authenticated
		"other":     zk.DigestACL(zk.PermAll, "ann", "secret"),
	} {
		for _, deep := range []bool{false, true} {
			chroot := fmt.Sprintf("/refused%d", counter.Add(1))
			if !deep { // the base is there already
				for _, path := range []string{chroot, chroot + folder} {
					if _, err := op.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
						t.Fatal(err)
					}
				}
			}
			l := open(t, []string{z.Addr()}, WithChroot(chroot), WithACL(acl...))
			n := name(t)
			for range 2 {
				if _, err := l.Acquire(within(t, 20*time.Second), n); !errors.Is(err, driver.ErrRefused) {
					t.Errorf("%s: acquire: %v", what, err)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			if err := l.Close(ctx); err != nil {
				t.Errorf("%s: close: %v", what, err)
			}
			cancel()
			other := open(t, []string{z.Addr()}, WithChroot(chroot))
			if !uses(t, other, n) {
				t.Errorf("%s: others cannot use the name", what)
			}
		}
	}
}

// The ACL is changed under those who hold and wait: both are told at once.
func TestACLChangedUnderHolderAndWaiter(t *testing.T) {
	beside(t)
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	a, b := open(t, []string{z.Addr()}), open(t, []string{z.Addr()})
	n := name(t)
	held, err := a.Acquire(within(t, time.Minute), n)
	must(t, err)
	turn := make(chan error, 1)
	go func() {
		_, err := b.Acquire(within(t, time.Minute), n)
		turn <- err
	}()
	all := op.length(n, 2)
	queue := queuePath(folder, n)
	if _, err := op.SetACL(queue, zk.DigestACL(zk.PermAll, "ann", "secret"), -1); err != nil {
		t.Fatal(err)
	}
	inTime := locktest.Limit(t, 10*time.Second)
	if err := held.Release(within(t, 30*time.Second)); !errors.Is(err, driver.ErrRefused) || !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("release: %v", err)
	}
	inTime("release")
	must(t, op.AddAuth("digest", []byte("ann:secret")))
	op.delete(queue + "/" + parseQueue(all)[0].node)
	if err := await(t, turn, "the waiter to be told"); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("acquire: %v", err)
	}
	for _, l := range []locker.Locker{a, b} {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		inTime := locktest.Limit(t, 6*time.Second)
		_ = l.Close(ctx) // what it could not remove goes with the session
		inTime("close")
		cancel()
	}
	if _, err := op.SetACL(queue, zk.WorldACL(zk.PermAll), -1); err != nil && err != zk.ErrNoNode { // servers remove an empty queue
		t.Fatal(err)
	}
	op.length(n, 0)
}

// The permissions on the base that the package's documentation asks for are enough. Without that to delete in it a queue
// that is there already can be used, also by a waiter that loses its place.
func TestPermissionsOnBase(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	chroot := fmt.Sprintf("/base%d", counter.Add(1))
	base := chroot + folder
	for _, path := range []string{chroot, base} {
		if _, err := op.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	permit := func(perms int32) {
		t.Helper()
		if _, err := op.SetACL(base, zk.WorldACL(perms|zk.PermAdmin), -1); err != nil {
			t.Fatal(err)
		}
	}
	n := name(t)
	permit(zk.PermRead | zk.PermCreate | zk.PermDelete)
	a, b := raw(t, []string{z.Addr()}, WithChroot(chroot)), raw(t, []string{z.Addr()}, WithChroot(chroot))
	h, w := claim(n), claim(n)
	take(t, a, h)
	permit(zk.PermRead)
	turn := begin(within(t, time.Minute), b, w)
	var node string
	eventually.Is(t, "the waiter to be in the queue", func() bool {
		children, _, err := op.Children(queuePath(base, n))
		node = ofClaim(children, w)
		return err == nil && node != ""
	})
	op.delete(queuePath(base, n) + "/" + node)
	release(t, a, h) // now it lists the queue
	turn.Granted(t, patience)
	release(t, b, w)
}

// Nodes belong to whoever authenticated; the credentials are given again on every
// connection and in every session.
func TestDigestAndACL(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	for _, acl := range [][]zk.ACL{zk.AuthACL(zk.PermAll), zk.DigestACL(zk.PermAll, "ann", "secret")} {
		chroot := fmt.Sprintf("/acl%d", counter.Add(1))
		mine := []locker.Option{WithChroot(chroot), WithDigest("ann", "secret"), WithACL(acl...)}
		s := newProtocolProxy(t, z.Addr())
		l, d := both(t, []string{s.addr()}, mine...)
		n := name(t)
		held, err := l.Acquire(within(t, time.Minute), n)
		must(t, err)
		for _, other := range [][]locker.Option{{WithChroot(chroot)}, {WithChroot(chroot), WithDigest("ann", "wrong")}} {
			thief := open(t, []string{z.Addr()}, other...)
			_, acquired := thief.Acquire(within(t, time.Minute), n)
			_, tried := thief.TryAcquire(within(t, time.Minute), n)
			for what, err := range map[string]error{"acquire": acquired, "try": tried} {
				if !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), chroot) {
					t.Errorf("%s without permission: %v", what, err)
				}
			}
		}
		if _, _, err := op.Get(queuePath(chroot+folder, n)); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("others may read: %v", err)
		}
		s.cut()
		if err := freed(within(t, time.Minute), held); err != nil {
			t.Errorf("release on another connection: %v", err)
		}
		id, password := s.session()
		steal(t, z.Addr(), d, id, password)
		again, err := l.Acquire(within(t, time.Minute), n)
		if err != nil {
			t.Fatalf("in another session: %v", err)
		}
		if err := freed(within(t, time.Minute), again); err != nil {
			t.Error(err)
		}
	}
}

// Who may make the queue but nothing in it leaves none: servers remove no container that
// was never used.
func TestQueueMadeInVainIsRemoved(t *testing.T) {
	z := servers.SharedZooKeeper(t)
	op := console(t, z.Addr())
	chroot := fmt.Sprintf("/vain%d", counter.Add(1))
	for _, path := range []string{chroot, chroot + folder} {
		if _, err := op.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	d := raw(t, []string{z.Addr()}, WithChroot(chroot), WithACL(zk.WorldACL(zk.PermRead|zk.PermCreate)...))
	c := claim(name(t))
	if _, err := d.Acquire(within(t, time.Minute), c); !errors.Is(err, zk.ErrNoAuth) {
		t.Fatalf("acquire: %v", err)
	}
	must(t, d.Abandon(within(t, time.Minute), c))
	if there, _, err := op.Exists(queuePath(chroot+folder, c.Name)); err != nil || there {
		t.Errorf("the queue is left: %v, %v", there, err)
	}
}
