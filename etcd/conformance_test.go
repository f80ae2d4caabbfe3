package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/names"
	"github.com/seed80cd6120/locker/internal/servers"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, 1, servers.EtcdOptions{}, false)
}

// TestConformanceThree has the leader moved, stopped and killed in between.
func TestConformanceThree(t *testing.T) {
	t.Parallel()
	conform(t, 3, servers.EtcdOptions{Args: []string{"--heartbeat-interval", "50", "--election-timeout", "500"}}, true)
}

func TestConformanceOld(t *testing.T) {
	t.Parallel()
	conform(t, 1, servers.EtcdOptions{Old: true}, false)
}

// conform runs the suite on a cluster of its own, which is disturbed if so wanted.
func conform(t *testing.T, members int, opts servers.EtcdOptions, disturb bool) {
	b := conformance.Backend{
		Dial: func(_ context.Context, address string, opts ...locker.Option) (locker.Locker, error) {
			return openOwned(clientv3.Config{Endpoints: strings.Split(address, ",")}, opts)
		},
		Fair:       true,
		Shared:     true,
		Permits:    true,
		Downgrade:  true,
		Inspect:    true,
		AtLeast:    true,
		Evict:      true,
		Fenced:     true,
		Durable:    true,
		TTL:        2 * time.Second, // the least that etcd grants
		RequireAll: true,
		Variant:    members > 1 || opts.Old,
	}
	if conformance.InChild() {
		b.New = func(testing.TB) *conformance.Harness { panic("not in a child") }
	} else {
		cluster := servers.NewEtcdCluster(t, members, opts)
		admin := dial(t, cluster.Addrs()...)
		broken := misconfiguredNew
		if opts.Old {
			broken = misconfiguredOld
		}
		if _, err := broken(); err != nil {
			t.Fatal(err)
		}
		b.New = func(t testing.TB) *conformance.Harness { return harness(t, cluster, admin, broken) }
		if disturb {
			b.New = shake(t, cluster, b.New)
		}
	}
	conformance.Run(t, b)
}

// shake moves, stops and kills the leader in turn, in between the cases: not in the middle
// of one, since many measure a time that a new leader rightly changes (it gives every
// lease its full time once more). The cases that count requests or stop the servers
// themselves come last and are left in peace. A run of a few cases may leave no time between them.
func shake(t *testing.T, c *servers.EtcdCluster, harness func(testing.TB) *conformance.Harness) func(testing.TB) *conformance.Harness {
	stop, stopped := make(chan struct{}), make(chan struct{})
	var running sync.RWMutex // read by the cases
	var cases atomic.Int64
	steps := []func(leader, next *servers.Etcd) error{
		func(_, next *servers.Etcd) error { return c.MoveLeader(t.Context(), next) },
		func(leader, _ *servers.Etcd) error {
			err := leader.Pause()
			time.Sleep(700 * time.Millisecond) // longer than an election
			return errors.Join(err, leader.Resume())
		},
		func(leader, _ *servers.Etcd) error {
			return errors.Join(leader.Kill(), leader.RestartNoWait(t.Context()))
		},
	}
	step := func(i int) error {
		running.Lock()
		defer running.Unlock()
		select {
		case <-stop:
			return nil
		default:
		}
		leader, err := c.Leader(t.Context())
		if err == nil {
			next := c.Members[(slices.Index(c.Members, leader)+1)%len(c.Members)]
			err = steps[i%len(steps)](leader, next)
		}
		return errors.Join(err, c.WaitReady(t.Context()))
	}
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				if t.Logf("the leader was moved, stopped or killed %d times", i); i < len(steps) && cases.Load() > 50 {
					t.Error("that is too little")
				}
				return
			case <-time.After(500 * time.Millisecond):
			}
			if err := step(i); err != nil {
				if t.Context().Err() == nil {
					t.Errorf("disturbing the cluster: %v", err)
				}
				return
			}
		}
	}()
	peace := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(func() {
		peace()
		<-stopped
	})
	return func(t testing.TB) *conformance.Harness {
		running.RLock()
		t.Cleanup(running.RUnlock)
		cases.Add(1)
		h := harness(t)
		count, kill := h.Requests, h.Stop
		h.Requests = func(ctx context.Context) (int64, error) { peace(); return count(ctx) }
		h.Stop = func(ctx context.Context) error { peace(); return kill(ctx) }
		return h
	}
}

// openOwned makes a Locker that has a client to itself and closes it.
func openOwned(cfg clientv3.Config, opts []locker.Option) (locker.Locker, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	end := func() error { closeClient(c); return nil }
	l, err := New(c, slices.Concat(opts, []locker.Option{locker.WithOnClose(end)})...)
	if err != nil {
		_ = end()
	}
	return l, err
}

func harness(t testing.TB, cluster *servers.EtcdCluster, admin *clientv3.Client, broken func() (misconfigured, error)) *conformance.Harness {
	wrong, err := broken()
	must(t, err)
	open := func(addrs []string, opts []locker.Option) (locker.Locker, error) {
		return openOwned(clientv3.Config{Endpoints: addrs}, opts)
	}
	return &conformance.Harness{
		Address: strings.Join(cluster.Addrs(), ","),
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			return open(cluster.Addrs(), opts)
		},
		OpenLink: func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
			s, addrs := locktest.Fronts(t, cluster.Addrs())
			l, err := open(addrs, opts)
			return l, conformance.Link{Freeze: s.Freeze, Mute: s.FreezeDown, Cut: s.CutOff, Heal: s.Heal}, err
		},
		Destroy: func(ctx context.Context, name string) error {
			r, err := admin.Get(ctx, DefaultPrefix+names.Escape(name)+mark, clientv3.WithFirstCreate()...)
			if err != nil || len(r.Kvs) == 0 {
				return fmt.Errorf("nobody holds %q: %w", name, err)
			}
			_, err = admin.Delete(ctx, string(r.Kvs[0].Key))
			return err
		},
		Leftovers: func(ctx context.Context, text string) ([]string, error) {
			r, err := admin.Get(ctx, DefaultPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				return nil, err
			}
			var left []string
			for _, kv := range r.Kvs {
				if strings.Contains(string(kv.Key), names.Escape(text)) {
					left = append(left, string(kv.Key))
				}
			}
			return left, nil
		},
		Requests: func(ctx context.Context) (int64, error) { return servers.SumRequests(ctx, cluster.Members) },
		Stop:     func(context.Context) error { return servers.Each(cluster.Members, (*servers.Etcd).Kill) },
		Start: func(ctx context.Context) error {
			if err := servers.Each(cluster.Members, func(m *servers.Etcd) error { return m.RestartNoWait(ctx) }); err != nil {
				return err
			}
			return cluster.WaitReady(ctx)
		},
		Misconfigured: wrong,
	}
}

// misconfigured opens clients that cannot work, by what is wrong with them.
type misconfigured map[string]func(ctx context.Context, opts ...locker.Option) (locker.Locker, error)

// Their servers are shared by all tests and end with the process.
var (
	misconfiguredNew = sync.OnceValues(func() (misconfigured, error) { return newMisconfigured(false) })
	misconfiguredOld = sync.OnceValues(func() (misconfigured, error) { return newMisconfigured(true) })
)

func newMisconfigured(old bool) (misconfigured, error) {
	ctx := context.Background()
	guarded, err := servers.StartEtcd(ctx, servers.EtcdOptions{RootPassword: "secret", Old: old})
	if err != nil {
		return nil, err
	}
	root, err := newClient(clientv3.Config{Endpoints: []string{guarded.Addr()}, Username: "root", Password: "secret"})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, do := range []func() error{
		func() error { _, err := root.UserAdd(ctx, "guest", "guest"); return err },
		func() error { _, err := root.RoleAdd(ctx, "reader"); return err },
		func() error {
			_, err := root.RoleGrantPermission(ctx, "reader", "elsewhere/", "elsewhere0", clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func() error { _, err := root.UserGrantRole(ctx, "guest", "reader"); return err },
	} {
		if err := do(); err != nil {
			return nil, err
		}
	}
	secure, err := servers.StartEtcd(ctx, servers.EtcdOptions{TLS: true, Old: old})
	if err != nil {
		return nil, err
	}
	stranger, err := servers.StartEtcd(ctx, servers.EtcdOptions{TLS: true, Old: old})
	if err != nil {
		return nil, err
	}
	trust := stranger.TLSConfig() // of another authority
	if err := stranger.Close(); err != nil {
		return nil, err
	}

	with := func(cfg clientv3.Config) func(context.Context, ...locker.Option) (locker.Locker, error) {
		return func(_ context.Context, opts ...locker.Option) (locker.Locker, error) { return openOwned(cfg, opts) }
	}
	return misconfigured{
		"wrong password":         with(clientv3.Config{Endpoints: []string{guarded.Addr()}, Username: "root", Password: "wrong"}),
		"no password":            with(clientv3.Config{Endpoints: []string{guarded.Addr()}}),
		"no permission":          with(clientv3.Config{Endpoints: []string{guarded.Addr()}, Username: "guest", Password: "guest"}),
		"wrong authority":        with(clientv3.Config{Endpoints: []string{secure.Endpoint()}, TLS: trust}),
		"plain text to TLS port": with(clientv3.Config{Endpoints: []string{secure.Addr()}}),
	}, nil
}
