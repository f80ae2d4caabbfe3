package checks

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/servers"
)

// TestConformance holds the other libraries to the suite that this project's backends pass,
// the whole of it. It asks for more than any of them offers: the table leaves out the
// promises that a library does not make.
func TestConformance(t *testing.T) {
	each(t, false, func(t *testing.T, l Library) {
		_, unfair := l.Lacks[Queues]
		b := conformance.Backend{TTL: short, Fair: !unfair, DialClient: dialAt}
		if conformance.InChild() {
			b.New = func(testing.TB) *conformance.Harness { panic("not in a child") }
		} else {
			s := faults.StartOn(t, l.Backend)
			b.New = func(t testing.TB) *conformance.Harness { return harness(t, s) }
		}
		conformance.Run(t, b)
	})
}

// dialAt opens a client at an address that harness has made.
func dialAt(ctx context.Context, address string, opts ...locker.Option) (conformance.Client, error) {
	var a faults.Access
	if err := json.Unmarshal([]byte(address), &a); err != nil {
		return nil, err
	}
	return openAt(ctx, a, opts)
}

func openAt(ctx context.Context, a faults.Access, opts []locker.Option) (conformance.Client, error) {
	cfg, err := locker.NewConfig[struct{}]("rival", nil, opts...)
	if err != nil {
		return nil, err
	}
	a.TTL = cfg.TTL
	return faults.Open(ctx, a)
}

func harness(t testing.TB, s *faults.Servers) *conformance.Harness {
	address, err := json.Marshal(s.Access)
	if err != nil {
		t.Fatal(err)
	}
	h := &conformance.Harness{
		OpenClient: func(ctx context.Context, opts ...locker.Option) (conformance.Client, error) {
			return openAt(ctx, s.Access, opts)
		},
		OpenLinkClient: func(ctx context.Context, opts ...locker.Option) (conformance.Client, conformance.Link, error) {
			net, access, err := faults.NewNetwork(s.Access, s.Addrs)
			if err != nil {
				return nil, conformance.Link{}, err
			}
			t.Cleanup(func() { _ = net.Close() })
			c, err := openAt(ctx, access, opts)
			return c, conformance.Link{
				Freeze: net.Freeze,
				Mute:   net.FreezeDown,
				Cut:    net.CutOff,
				Heal:   net.Heal,
			}, err
		},
		Address: string(address),
		Destroy: s.Destroy,
		Stop:    func(context.Context) error { return servers.Each(s.All, (*servers.Server).Kill) },
		Start: func(ctx context.Context) error {
			return servers.Each(s.All, func(m *servers.Server) error { return m.Restart(ctx) })
		},
	}
	// Elsewhere it is asked only whether a name is free: what is in nobody's way until its
	// time is over is not held against those who were asked for something else.
	litter := strings.Contains(t.Name(), "/Litter/")
	switch {
	case !litter:
	case s.Redis != nil:
		h.Leftovers = s.Litter // of all names that contain what it is given
	case s.Etcd != nil:
		h.Leftovers = func(ctx context.Context, text string) ([]string, error) { return keysOfEtcd(ctx, s.Access, text) }
	}
	if len(s.All) == 1 {
		h.Requests = s.All[0].Requests
	}
	return h
}

// keysOfEtcd lists the keys that contain text.
func keysOfEtcd(ctx context.Context, a faults.Access, text string) ([]string, error) {
	c, err := faults.EtcdClient(a)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	all, err := c.Get(ctx, "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	var found []string
	for _, kv := range all.Kvs {
		if strings.Contains(string(kv.Key), text) {
			found = append(found, string(kv.Key))
		}
	}
	return found, nil
}
