package servers

import (
	"context"
	"encoding/base64"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
)

func (e *Etcd) put(ctx context.Context, token, key, value string) error {
	body := map[string]string{
		"key":   base64.StdEncoding.EncodeToString([]byte(key)),
		"value": base64.StdEncoding.EncodeToString([]byte(value)),
	}
	_, err := e.http(ctx, http.MethodPost, "/v3/kv/put", token, body)
	return err
}

func (e *Etcd) has(ctx context.Context, token, key string) (bool, error) {
	body := map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(key))}
	b, err := e.http(ctx, http.MethodPost, "/v3/kv/range", token, body)
	return strings.Contains(string(b), `"kvs"`), err
}

func TestEtcdVersionIsTheModules(t *testing.T) {
	b, err := os.ReadFile("etcd/go.mod")
	must(t, err)
	if !strings.Contains(string(b), "go.etcd.io/etcd/server/v3 "+EtcdVersion+"\n") {
		t.Errorf("etcd/go.mod does not require %s", EtcdVersion)
	}
}

func TestEtcdLife(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		t.Run(map[bool]string{false: EtcdVersion, true: "installed"}[old], func(t *testing.T) {
			e := NewEtcd(t, EtcdOptions{Old: old})
			ctx := locktest.Within(t, 5*time.Minute)
			counts(t, e.Server, 5, func() {
				for range 5 {
					must(t, e.put(ctx, "", "kept", "v"))
				}
			})
			methods, err := e.Methods(ctx)
			if err != nil || methods["KV/Put"] < 5 {
				t.Errorf("methods: %v, %v", methods, err)
			}
			lives(t, e.Server, func() (bool, error) { return e.has(ctx, "", "kept") })
		})
	}
}

func TestEtcdSecrets(t *testing.T) {
	t.Parallel()
	e := NewEtcd(t, EtcdOptions{TLS: true, RootPassword: "secret"})
	ctx := locktest.Within(t, 3*time.Minute)
	if err := e.put(ctx, "", "k", "v"); err == nil {
		t.Error("a client without a user was let in")
	}
	token, err := e.login(ctx)
	must(t, err)
	if err := e.put(ctx, token, "k", "v"); err != nil {
		t.Error(err)
	}
	if err := e.Restart(ctx); err != nil {
		t.Error(err)
	}
}

func TestEtcdClientCert(t *testing.T) {
	t.Parallel()
	e := NewEtcd(t, EtcdOptions{TLS: true, ClientCert: true})
	conf := e.TLSConfig()
	get := func() error {
		tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: conf}
		req, err := http.NewRequestWithContext(locktest.Within(t, time.Minute), http.MethodGet, e.Endpoint()+"/health", nil)
		must(t, err)
		resp, err := tr.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get(); err != nil {
		t.Error(err)
	}
	conf.Certificates = nil
	if err := get(); err == nil {
		t.Error("a client without a certificate was let in")
	}
}

func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	c := NewEtcdCluster(t, 3, EtcdOptions{})
	ctx := locktest.Within(t, 5*time.Minute)
	leader, err := c.Leader(ctx)
	must(t, err)
	for _, e := range c.Members {
		if e != leader {
			eventually.Is(t, "the member leads that was made the leader", func() bool { // it may not do so for long
				must(t, c.MoveLeader(ctx, e))
				now, err := c.Leader(ctx)
				must(t, err)
				return now == e
			})
		}
	}
	if leader, err = c.Leader(ctx); err != nil {
		t.Fatal(err)
	}
	must(t, leader.Kill())
	if next, err := c.Leader(ctx); err != nil || next == leader {
		t.Errorf("after Kill: %v, %v", next, err)
	}
	must(t, leader.Restart(ctx))
	if err := leader.RestartEmpty(ctx); err == nil {
		t.Error("a member of a cluster was restarted empty")
	}
	must(t, Each(c.Members, (*Etcd).Stop))
	must(t, c.Members[0].RestartNoWait(ctx), c.Members[1].Restart(ctx))
}
