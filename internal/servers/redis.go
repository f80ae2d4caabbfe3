package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// RedisOptions say how a Redis server is to be started. The zero value is a plain
// server that stores nothing on disk: it is empty after a restart.
type RedisOptions struct {
	// Args are further arguments of redis-server, such as "--maxmemory", "1mb". For a
	// server that keeps its data give "--appendonly", "yes", "--appendfsync", "always".
	Args []string
	// Password is asked of clients (and of replicas, where there are some).
	Password string
	// TLS makes the server speak TLS only; see [Redis.TLSConfig].
	TLS bool
	// ClientCert, with TLS, makes the server demand a certificate of each client.
	ClientCert bool
}

func (o RedisOptions) plain() bool {
	return len(o.Args) == 0 && o.Password == "" && !o.TLS
}

// Redis is one redis-server.
type Redis struct {
	*Server
	opts  RedisOptions
	certs *certs // nil without TLS
	probe redisProbe
}

// StartRedis starts one Redis server.
func StartRedis(ctx context.Context, opts RedisOptions) (*Redis, error) {
	all, err := StartRedisSet(ctx, 1, opts)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// StartRedisSet starts n Redis servers that know nothing of each other.
func StartRedisSet(ctx context.Context, n int, opts RedisOptions) ([]*Redis, error) {
	var all []*Redis
	if addrs, ok := givenAddrs(EnvRedis, n); ok && opts.plain() {
		for _, addr := range addrs {
			r := &Redis{Server: &Server{kind: "redis", addr: addr, given: true}}
			r.bind()
			if err := r.WaitReady(ctx); err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		return all, nil
	}
	for range n {
		r, err := startRedis(ctx, opts, nil)
		if err != nil {
			return nil, errors.Join(err, closeRedis(all))
		}
		all = append(all, r)
	}
	return all, nil
}

// startRedis starts a server; conf returns further lines of its configuration.
func startRedis(ctx context.Context, opts RedisOptions, conf func(*Redis) []string) (*Redis, error) {
	bin, err := find("redis-server", EnvRedis)
	if err != nil {
		return nil, err
	}
	return retryPorts(func() (*Redis, error) {
		s, err := newServer("redis", 2) // the second port is for the cluster's bus
		if err != nil {
			return nil, err
		}
		r := &Redis{Server: s, opts: opts}
		if opts.TLS {
			if r.certs, err = newCerts(s.dir); err != nil {
				return nil, errors.Join(err, s.Close())
			}
		}
		r.bind()
		lines := r.config()
		if conf != nil {
			lines = append(lines, conf(r)...)
		}
		file := filepath.Join(s.dir, "redis.conf")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.command = func() (string, []string, error) {
			return bin, append([]string{file}, r.opts.Args...), nil
		}
		return r, s.start(ctx, true)
	})
}

func (r *Redis) bind() {
	r.ready = r.answers
	r.requests = r.probe.count(r)
	r.started = r.probe.reset
}

// config returns the lines that every server has in its configuration.
func (r *Redis) config() []string {
	lines := []string{
		"bind " + host,
		"dir " + r.data,
		`save ""`,
		"appendonly no",
		"protected-mode no",
		"cluster-port " + r.ports[1].String(),
	}
	if r.opts.Password != "" {
		lines = append(lines, "requirepass "+r.opts.Password, "masterauth "+r.opts.Password)
	}
	if r.certs == nil {
		return append(lines, "port "+r.ports[0].String())
	}
	demand := "no"
	if r.opts.ClientCert {
		demand = "yes"
	}
	return append(lines,
		"port 0",
		"tls-port "+r.ports[0].String(),
		"tls-ca-cert-file "+r.certs.ca,
		"tls-cert-file "+r.certs.server,
		"tls-key-file "+r.certs.serverKey,
		"tls-auth-clients "+demand)
}

// SetArgs replaces the further arguments of redis-server from the next restart on.
func (r *Redis) SetArgs(args ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opts.Args = slices.Clone(args)
}

// Password returns the password that the server asks for, or "".
func (r *Redis) Password() string { return r.opts.Password }

// TLSConfig returns what a client needs to connect, with a certificate of its own, or
// nil if the server does not speak TLS.
func (r *Redis) TLSConfig() *tls.Config {
	if r.certs == nil {
		return nil
	}
	return r.certs.client()
}

// Do sends one command on a connection of its own and returns the reply: a string, an
// int64, a []any, nil, or an error, which is a [RedisError] if the server answered it.
// Commands sent by Do are not counted by Requests.
func (r *Redis) Do(ctx context.Context, args ...string) (any, error) {
	c, err := r.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	defer c.Close()
	v, err := r.probe.do(c, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return v, nil
}

func (r *Redis) dial(ctx context.Context) (*respConn, error) {
	c, err := dialRESP(ctx, r.addr, r.TLSConfig())
	if err != nil || r.opts.Password == "" {
		return c, err
	}
	if _, err := r.probe.do(c, "AUTH", r.opts.Password); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// answers is one try of asking whether the server serves.
func (r *Redis) answers(ctx context.Context) error {
	_, err := r.Do(ctx, "PING")
	var answered RedisError
	if errors.As(err, &answered) && strings.HasPrefix(string(answered), "NOAUTH") {
		return nil // a password from Args, or of a given server: it serves those who know it
	}
	return err
}

func closeRedis(all []*Redis) error {
	var errs []error
	for _, r := range all {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
