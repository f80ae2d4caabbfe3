package etcd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestLateRequest: a request that put a key, was given up and cleaned up after, and
// arrives only then, has no effect. The client has two ways to the server, of which
// one freezes.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	admin := dial(t, e.Addr())
	slow, fast := front(t, e.Addr()), front(t, e.Addr())
	b := impatient(driverOf(t, dial(t, slow.Addr(), fast.Addr())))
	eventually.Is(t, "both ways open", func() bool {
		release(t, b, hold(t, b, "warm"))
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
			release(t, b, c)
			// Requests take the two ways in turn: change step.
			_, err := b.client.Get(t.Context(), "step")
			must(t, err)
			continue
		}
		late++
		eventually.Is(t, "cleanup over the fast way", func() bool { return b.Abandon(t.Context(), c) == nil })
		slow.Heal()
		eventually.Is(t, "late request delivered", func() bool { return slow.Stats().HeldUp == 0 })
		for range 4 { // both ways, behind it
			_, err := b.client.Get(t.Context(), "behind")
			must(t, err)
		}
		if keys := keysOf(t, admin, t.Name()); len(keys) > 0 {
			t.Fatalf("the late request left %v", keys)
		}
	}
	// And the barrier lets through what was sent after it was moved.
	release(t, b, hold(t, b, t.Name()))
}

// TestLateCleanup: a cleanup that was given up and made again arrives when the name of the key is in use again, by the same claim
// or by the next of the Locker. It does not delete that key.
func TestLateCleanup(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	send := sender(t, e.Addr())
	admin := dial(t, e.Addr())
	for _, how := range []string{"joins again", "put, joins again", "abandoned", "put, abandoned"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			put, abandoned := strings.HasPrefix(how, "put"), strings.HasSuffix(how, "abandoned")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var late []*pb.TxnRequest // the first that puts the key, and the first that deletes it
			b := impatient(driverOf(t, dialThrough(t, e.Addr(), func(of context.Context, _ string, req, reply any, do func(any) error) error {
				txn, _ := req.(*pb.TxnRequest)
				if !joins(req, t.Name()) || len(late) == 2 || len(late) == 1 && !strings.Contains(txn.String(), "delete") {
					return do(reply)
				}
				late = append(late, txn)
				if len(late) == 1 && put {
					send(txn)
				}
				if abandoned {
					cancel()
				}
				<-of.Done()
				return of.Err()
			}, nil)))
			c := claim(t.Name(), true)
			g, err := b.Acquire(ctx, c)
			if abandoned {
				eventually.Is(t, "cleanup", func() bool { return b.Abandon(t.Context(), c) == nil })
				g, err = b.Acquire(t.Context(), claim(t.Name(), true))
			}
			must(t, err)
			for _, txn := range late {
				send(txn)
			}
			if all := read(t, admin, keysOf(t, admin, t.Name())); len(all) != 1 || all[0].CreateRevision != g.Token>>tokenBits {
				t.Errorf("token %d, keys %v", g.Token, all)
			}
		})
	}
}

// TestLateCleanupOfTry: a try that was put behind others, and whose cleanup had no answer, is not granted the name by the key that
// the cleanup may yet delete.
func TestLateCleanupOfTry(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	other := driverOf(t, admin)
	var others []*driver.Claim
	var cleanup *pb.TxnRequest
	b := driverOf(t, dialThrough(t, e.Addr(), func(_ context.Context, _ string, req, reply any, do func(any) error) error {
		txn, _ := req.(*pb.TxnRequest)
		switch {
		case !joins(req, t.Name()) || cleanup != nil:
		case strings.Contains(txn.String(), "delete"):
			cleanup = txn
			for _, c := range others {
				release(t, other, c)
			}
			return status.Error(codes.Unavailable, "the request has been lost")
		default: // the try fits before this, and no longer after it
			c := claimOf(t.Name(), 500, 1000)
			take(t, other, c)
			others = append(others, c)
		}
		return do(reply)
	}, nil))
	try := claimOf(t.Name(), 1, 1000)
	try.Wait = false
	g := take(t, b, try)
	sender(t, e.Addr())(cleanup)
	if all := read(t, admin, keysOf(t, admin, t.Name())); len(all) != 1 || all[0].CreateRevision != g.Token>>tokenBits {
		t.Errorf("token %d, keys %v", g.Token, all)
	}
}

// sender returns what sends a transaction.
func sender(t *testing.T, endpoint string) func(*pb.TxnRequest) {
	c := dial(t, endpoint)
	return func(txn *pb.TxnRequest) {
		t.Helper()
		_, err := pb.NewKVClient(c.ActiveConnection()).Txn(t.Context(), txn)
		must(t, err)
	}
}

// TestLostReply: who is in the queue already, by a request whose answer was lost,
// recognises itself and is not put there twice; and a release whose answer was lost is done
// when it is made again.
func TestLostReply(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	p := front(t, e.Addr())
	b := driverOf(t, dial(t, p.Addr()))
	hold(t, b, t.Name()+"session")
	lose := func(do func() error) {
		t.Helper()
		before := p.Stats().Swallowed
		p.SwallowReply(func(request []byte) bool { return bytes.Contains(request, []byte(t.Name()+mark)) }, 50*time.Millisecond)
		must(t, do())
		if p.Stats().Swallowed == before {
			t.Fatal("no reply was swallowed")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, wait := range []bool{true, false} {
		for _, weight := range []int32{driver.All, 1} {
			c := claimOf(t.Name(), weight, driver.All)
			c.Wait = wait
			var g driver.Grant
			lose(func() (err error) { g, err = b.Acquire(ctx, c); return err })
			r, err := admin.Get(ctx, b.queueOf(t.Name()), clientv3.WithPrefix())
			if err != nil || len(r.Kvs) != 1 || r.Kvs[0].CreateRevision != g.Token>>tokenBits {
				t.Errorf("wait %v: token %d, keys %v %v", wait, g.Token, r.Kvs, err)
			}
			lose(func() error {
				for failed := false; ; failed = true {
					err := b.Release(ctx, c)
					if failed && errors.Is(err, driver.ErrGone) { // which the core takes for done
						return nil
					}
					if err == nil || errors.Is(err, driver.ErrGone) || ctx.Err() != nil {
						return err
					}
				}
			})
			queueHas(t, admin, t.Name(), 0)
		}
	}
}

// TestUnansweredDowngrade: a downgrade whose answer was lost, or which never arrived, and then a release of a name that has to
// stay taken. It stays taken by a shared lock.
func TestUnansweredDowngrade(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	other := driverOf(t, dial(t, e.Addr()))
	for _, how := range []string{"answer lost", "request lost"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			losing := false
			b := driverOf(t, dialThrough(t, e.Addr(), func(of context.Context, _ string, req, reply any, do func(any) error) error {
				if !losing || !joins(req, t.Name()) {
					return do(reply)
				}
				losing = false
				if how == "answer lost" {
					must(t, do(new(pb.TxnResponse)))
				}
				cancel()
				<-of.Done()
				return of.Err()
			}, nil))
			c := hold(t, b, t.Name())
			losing = true
			if err := b.Lighten(ctx, c, 1); !errors.Is(err, context.Canceled) || losing {
				t.Errorf("downgrade: %v", err)
			}
			must(t, b.Linger(t.Context(), c, time.Hour))
			all, err := b.Look(t.Context(), t.Name())
			if err != nil || len(all) != 1 || all[0].Weight != 1 {
				t.Errorf("stays taken by %+v, %v", all, err)
			}
			reader := claimOf(t.Name(), 1, driver.All)
			reader.Wait = false
			take(t, other, reader)
			abandon(t, b, c)
		})
	}
}

// TestNoSpace: while the server has no space acquisitions end with an error that says so, what
// they may have put is removed, releases work, and afterwards all goes on.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{Args: []string{"--quota-backend-bytes", "2097152"}})
	admin := dial(t, e.Addr())
	b := driverOf(t, admin)
	held := hold(t, b, "held")
	doubtful := hold(t, b, "doubtful")
	cs := doubtful.State.(*claimState)
	cs.unsure, cs.late = true, true
	fill := strings.Repeat("x", 500<<10)
	eventually.Is(t, "no space", func() bool {
		_, err := admin.Put(t.Context(), "filler"+time.Now().String(), fill)
		return errors.Is(err, rpctypes.ErrNoSpace)
	})
	var failed []*driver.Claim
	for _, wait := range []bool{true, false} {
		c := claim("new", wait)
		if _, err := b.Acquire(t.Context(), c); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("acquire (wait %v): %v", wait, err)
		}
		failed = append(failed, c)
	}
	for _, c := range failed {
		abandon(t, b, c)
	}
	release(t, b, held)
	if err := b.Abandon(t.Context(), doubtful); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("cleanup that needs the barrier: %v", err)
	}
	queueHas(t, admin, "doubtful", 0) // the name is free all the same
	remove(t, admin, "filler", clientv3.WithPrefix())
	r, err := admin.Get(t.Context(), "nothing")
	must(t, err)
	_, err = admin.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical())
	must(t, err)
	_, err = admin.Defragment(t.Context(), e.Addr())
	must(t, err)
	_, err = admin.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	must(t, err)
	abandon(t, b, doubtful)
	hold(t, b, "new")
	if len(b.keys) != 1 {
		t.Errorf("kept in the process: %v", b.keys)
	}
}

// TestFailedTryWritesNothing: being refused costs one request and no write.
func TestFailedTryWritesNothing(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	c := dial(t, e.Addr())
	hold(t, driverOf(t, c), t.Name())
	b := driverOf(t, c)
	hold(t, b, "another") // begins the session
	revision := func() int64 {
		r, err := c.Get(t.Context(), "nothing")
		must(t, err)
		return r.Header.Revision
	}
	before, since := revision(), requests(t, e)
	for range 5 {
		if _, err := b.Acquire(t.Context(), claim(t.Name(), false)); !errors.Is(err, driver.ErrTaken) {
			t.Fatalf("%v, want ErrTaken", err)
		}
	}
	if n, by := since(); n != 5 {
		t.Errorf("5 refusals cost %d requests: %v", n, by)
	}
	if after := revision(); after != before {
		t.Errorf("they wrote: revision %d, before %d", after, before)
	}
}

// TestRefused: what the user may not do is told at once by an acquisition and by a release, with
// an error that says that no repetition will help.
func TestRefused(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{RootPassword: "secret"})
	root := dialWith(t, clientv3.Config{Endpoints: []string{e.Addr()}, Username: "root", Password: "secret"})
	grant := func() {
		_, err := root.RoleGrantPermission(t.Context(), "user", DefaultPrefix, clientv3.GetPrefixRangeEnd(DefaultPrefix), clientv3.PermissionType(clientv3.PermReadWrite))
		must(t, err)
	}
	_, err := root.RoleAdd(t.Context(), "user")
	must(t, err)
	_, err = root.UserAdd(t.Context(), "user", "user")
	must(t, err)
	_, err = root.UserGrantRole(t.Context(), "user", "user")
	must(t, err)
	b := driverOf(t, dialWith(t, clientv3.Config{Endpoints: []string{e.Addr()}, Username: "user", Password: "user"}))
	refused := claim(t.Name(), true)
	if _, err := b.Acquire(t.Context(), refused); !errors.Is(err, driver.ErrRefused) || !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("acquire: %v", err)
	}
	if err := b.Abandon(t.Context(), refused); err != nil || len(b.keys) > 0 {
		t.Errorf("cleanup after a put that was refused: %v, kept: %v", err, b.keys)
	}
	grant()
	held := hold(t, b, t.Name())
	_, err = root.RoleRevokePermission(t.Context(), "user", DefaultPrefix, clientv3.GetPrefixRangeEnd(DefaultPrefix))
	must(t, err)
	if err := b.Release(t.Context(), held); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("release: %v", err)
	}
	grant()
	release(t, b, held)
}

// TestCancelledOnStalledServer: who gives up returns at once, although cleaning up has to
// wait for the server.
func TestCancelledOnStalledServer(t *testing.T) {
	t.Parallel()
	c := dial(t, servers.SharedEtcd(t).Addr())
	p := front(t, servers.SharedEtcd(t).Addr())
	hold(t, driverOf(t, c), t.Name())
	waiter := newLocker(t, dial(t, p.Addr()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := waiter.Acquire(ctx, t.Name()); done <- err }()
	queueHas(t, c, t.Name(), 2)
	p.Freeze()
	inTime := locktest.Limit(t, time.Second)
	cancel()
	if err := soon(t, "the end", done); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	inTime("the return after the cancellation")
	p.Heal()
	queueHas(t, c, t.Name(), 1)
}

// overdue is a context whose end is that of its time.
type overdue struct{ context.Context }

func (o overdue) Err() error {
	if o.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// TestOverdueWithoutLeader: the time of an acquisition ends after its key was put, before the answer, and then a member says
// that there is no leader. That is no answer to the put: the key is removed.
func TestOverdueWithoutLeader(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	var ctx context.Context
	var end context.CancelFunc
	b := driverOf(t, dialThrough(t, e.Addr(), func(_ context.Context, method string, req, reply any, do func(any) error) error {
		switch {
		case joins(req, t.Name()) && ctx.Err() == nil:
			must(t, do(new(pb.TxnResponse)))
			end()
			return context.Canceled
		case strings.HasSuffix(method, "/Status"):
			return rpctypes.ErrGRPCNoLeader
		}
		return do(reply)
	}, nil))
	for ahead := range 2 {
		if ahead == 1 {
			hold(t, driverOf(t, admin), t.Name())
		}
		eventually.Is(t, "an acquisition to say that there is no leader", func() bool { // a late machine has no time to ask why
			ctx, end = context.WithCancel(t.Context())
			defer end()
			c := claim(t.Name(), true)
			_, err := b.Acquire(overdue{ctx}, c)
			if err == nil {
				t.Fatal("granted after its time")
			}
			queueHas(t, admin, t.Name(), ahead+1)
			abandon(t, b, c)
			queueHas(t, admin, t.Name(), ahead)
			return errors.Is(err, rpctypes.ErrNoLeader)
		})
	}
}

// TestOverdueSaysWhy: a request that is repeated says, when its time ends, why it had no answer.
func TestOverdueSaysWhy(t *testing.T) {
	t.Parallel()
	var end context.CancelFunc
	b := driverOf(t, dialThrough(t, servers.SharedEtcd(t).Addr(), func(_ context.Context, method string, _, reply any, do func(any) error) error {
		switch {
		case end == nil:
			return do(reply)
		case strings.HasSuffix(method, "/Status"):
			return rpctypes.ErrGRPCNoLeader
		}
		end()
		return context.Canceled
	}, nil))
	cs := hold(t, b, t.Name()).State.(*claimState)
	for what, do := range map[string]func(ctx context.Context) error{
		"look":    func(ctx context.Context) error { _, err := b.look(ctx, cs, 0); return err },
		"rewrite": func(ctx context.Context) error { return b.rewrite(ctx, cs) },
		"revoke":  func(ctx context.Context) error { return b.revoke(ctx, cs.session.lease) },
	} {
		eventually.Is(t, what+" to say that there is no leader", func() bool { // a late machine has no time to ask why
			ctx, cancel := context.WithCancel(t.Context())
			end = cancel
			defer func() { end = nil }()
			return errors.Is(do(overdue{ctx}), rpctypes.ErrNoLeader)
		})
	}
}

// TestRequestMadeTwice: what is between the driver and the server makes each request about a name twice and passes on the second
// answer. A claim finds itself in the queue and does not stand behind itself.
func TestRequestMadeTwice(t *testing.T) {
	t.Parallel()
	e := servers.SharedEtcd(t)
	admin := dial(t, e.Addr())
	holder := driverOf(t, admin)
	b := driverOf(t, dialThrough(t, e.Addr(), func(_ context.Context, _ string, req, reply any, do func(any) error) error {
		if joins(req, t.Name()) {
			must(t, do(new(pb.TxnResponse)))
		}
		return do(reply)
	}, nil))
	for _, wait := range []bool{true, false} {
		for _, weight := range []int32{driver.All, 1} {
			c := claimOf(t.Name(), weight, driver.All)
			c.Wait = wait
			g := take(t, b, c)
			if all := read(t, admin, queueHas(t, admin, t.Name(), 1)); all[0].CreateRevision != g.Token>>tokenBits {
				t.Errorf("wait %v: token %d, key %v", wait, g.Token, all)
			}
			abandon(t, b, c)
			queueHas(t, admin, t.Name(), 0)
		}
	}
	held := hold(t, holder, t.Name())
	granted := begin(t, b, claim(t.Name(), true))
	queueHas(t, admin, t.Name(), 2)
	release(t, holder, held)
	must(t, soon(t, "the grant", granted))
	queueHas(t, admin, t.Name(), 1)
}

// TestPreconditionFailed: an acquisition that waits goes on when the server is not ready for it yet.
func TestPreconditionFailed(t *testing.T) {
	t.Parallel()
	var refusals atomic.Int64
	b := driverOf(t, dialThrough(t, servers.SharedEtcd(t).Addr(), func(_ context.Context, _ string, req, reply any, do func(any) error) error {
		if joins(req, t.Name()) && refusals.Add(1) <= 2 {
			return rpctypes.ErrGRPCNotLeader // as "not capable" is, for later clients
		}
		return do(reply)
	}, nil))
	hold(t, b, t.Name())
	if refusals.Load() != 3 {
		t.Errorf("asked %d times", refusals.Load())
	}
}
