package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// EtcdOptions say how an etcd server is to be started. The zero value is a plain one
// of [EtcdVersion] that does not wait for the disk.
type EtcdOptions struct {
	// Args are further arguments, such as "--quota-backend-bytes", "2097152".
	Args []string
	// RootPassword turns authentication on, with a user "root" of this password.
	RootPassword string
	// TLS makes the server speak TLS only; see [Etcd.TLSConfig].
	TLS bool
	// ClientCert, with TLS, makes the server demand a certificate of each client.
	ClientCert bool
	// Sync makes the server wait for the disk on every write, as it does by default
	// outside of tests. (Data survives Kill either way.)
	Sync bool
	// Old runs the etcd that is installed (Debian: 3.4) instead of EtcdVersion.
	Old bool
}

func (o EtcdOptions) plain() bool {
	return len(o.Args) == 0 && o.RootPassword == "" && !o.TLS && !o.Sync && !o.Old
}

// Etcd is one etcd server. One request, for Requests, is one message of a client over
// gRPC: a unary call is one, each renewal in a stream of renewals is one.
type Etcd struct {
	*Server
	name         string
	rootPassword string
}

// StartEtcd starts one etcd server.
func StartEtcd(ctx context.Context, opts EtcdOptions) (*Etcd, error) {
	c, err := StartEtcdCluster(ctx, 1, opts)
	if err != nil {
		return nil, err
	}
	return c.Members[0], nil
}

// newEtcd prepares a member of a cluster.
func newEtcd(bin string, opts EtcdOptions, name, token string, c *EtcdCluster) (*Etcd, error) {
	s, err := newServer("etcd", 2, opts.Args) // clients, peers
	if err != nil {
		return nil, err
	}
	e := &Etcd{Server: s, name: name, rootPassword: opts.RootPassword}
	e.bind()
	s.command = func() (string, []string, error) {
		args := []string{
			"--name", name,
			"--data-dir", s.data,
			"--listen-client-urls", e.Endpoint(),
			"--advertise-client-urls", e.Endpoint(),
			"--listen-peer-urls", e.peerURL(),
			"--initial-advertise-peer-urls", e.peerURL(),
			"--initial-cluster", c.initial(),
			"--initial-cluster-state", "new",
			"--initial-cluster-token", token,
			"--logger", "zap",
			"--log-outputs", "stderr",
			"--log-level", "warn",
		}
		if !opts.Sync {
			args = append(args, "--unsafe-no-fsync")
		}
		if opts.RootPassword != "" {
			args = append(args, "--bcrypt-cost", "4") // the least: a log-in takes 60 ms of a processor otherwise
		}
		if e.certs != nil {
			args = append(args, "--cert-file", e.certs.server, "--key-file", e.certs.serverKey, "--trusted-ca-file", e.certs.ca)
			if opts.ClientCert {
				args = append(args, "--client-cert-auth")
			}
		}
		return bin, args, nil
	}
	return e, nil
}

func (e *Etcd) bind() {
	e.ready = e.healthy
	e.requests = func(ctx context.Context) (int64, error) {
		methods, err := e.Methods(ctx)
		var sum int64
		for _, n := range methods {
			sum += n
		}
		return sum, err
	}
}

// Endpoint returns the address as a URL, as etcd's client wants it with TLS.
func (e *Etcd) Endpoint() string {
	if e.certs != nil {
		return "https://" + e.addr
	}
	return "http://" + e.addr
}

func (e *Etcd) peerURL() string { return "http://" + e.ports[1].addr() }

// http sends one request to etcd's HTTP side and returns the body of a good answer.
func (e *Etcd) http(ctx context.Context, method, path, token string, body any) ([]byte, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, e.Endpoint()+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	// A transport of its own: no connection and no goroutine stays.
	tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: e.TLSConfig()}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", path, resp.Status, strings.TrimSpace(string(answer)))
	}
	return answer, err
}

// healthy is one try of asking whether the server serves, which takes a quorum.
func (e *Etcd) healthy(ctx context.Context) error {
	body, err := e.http(ctx, http.MethodGet, "/health", "", nil)
	if err != nil {
		return err
	}
	var h struct{ Health, Reason string }
	if err := json.Unmarshal(body, &h); err != nil {
		return fmt.Errorf("/health: %w", err)
	}
	if h.Health != "true" {
		return fmt.Errorf("/health: %s", body)
	}
	return nil
}

// enableAuth adds the user root and turns authentication on.
func (e *Etcd) enableAuth(ctx context.Context) error {
	for _, step := range []struct {
		path string
		body map[string]string
	}{
		{"/v3/auth/user/add", map[string]string{"name": "root", "password": e.rootPassword}},
		{"/v3/auth/role/add", map[string]string{"name": "root"}},
		{"/v3/auth/user/grant", map[string]string{"user": "root", "role": "root"}},
		{"/v3/auth/enable", map[string]string{}},
	} {
		if _, err := e.http(ctx, http.MethodPost, step.path, "", step.body); err != nil {
			return fmt.Errorf("turn authentication of etcd on: %w", err)
		}
	}
	return nil
}

// login returns what to send as Authorization, "" without authentication.
func (e *Etcd) login(ctx context.Context) (string, error) {
	if e.rootPassword == "" {
		return "", nil
	}
	b, err := e.http(ctx, http.MethodPost, "/v3/auth/authenticate", "", map[string]string{"name": "root", "password": e.rootPassword})
	if err != nil {
		return "", err
	}
	var a struct{ Token string }
	err = json.Unmarshal(b, &a)
	return a.Token, err
}
