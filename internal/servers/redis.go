package servers

import (
	"context"
	"errors"
	"fmt"
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

// Redis is one redis-server. Requests counts what clients have sent since the first call of it, as MONITOR shows that: without AUTH,
// HELLO and commands of administration such as CONFIG, without what scripts call inside, and without what [Redis.Do] sends. From
// that first call until [Redis.StopCounting] the server keeps a line for every command until the next call, so it is slower, and
// this is not for counting millions.
type Redis struct {
	*Server
	password string
	probe    redisProbe
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
			r := &Redis{Server: givenServer("redis", addr)}
			r.bind()
			all = append(all, r)
		}
		return all, allReady(ctx, serversOf(all))
	}
	for range n {
		r, err := startRedis(ctx, opts, nil)
		if err != nil {
			return nil, errors.Join(err, closeAll(serversOf(all)))
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
		s, err := newServer("redis", 2, opts.Args) // the second port is for the cluster's bus
		if err != nil {
			return nil, err
		}
		r := &Redis{Server: s, password: opts.Password}
		return orClose(r, r.launch(ctx, bin, opts, conf))
	})
}

func (r *Redis) launch(ctx context.Context, bin string, opts RedisOptions, conf func(*Redis) []string) (err error) {
	if opts.TLS {
		if r.certs, err = newCerts(r.dir); err != nil {
			return err
		}
	}
	r.bind()
	lines := r.config(opts)
	if conf != nil {
		lines = append(lines, conf(r)...)
	}
	file, err := r.configure("redis.conf", lines)
	if err != nil {
		return err
	}
	r.command = func() (string, []string, error) { return bin, []string{file}, nil }
	return startTogether(ctx, r.servers())
}

func (r *Redis) bind() {
	r.ready = r.answers
	r.requests = r.probe.count(r)
	r.starting = r.probe.reset
}

// config returns the lines that every server has in its configuration.
func (r *Redis) config(opts RedisOptions) []string {
	lines := []string{
		"bind " + host,
		"dir " + r.data,
		`save ""`,
		"appendonly no",
		"protected-mode no",
		"cluster-port " + r.ports[1].String(),
	}
	if opts.Password != "" {
		lines = append(lines, "requirepass "+opts.Password, "masterauth "+opts.Password)
	}
	if r.certs == nil {
		return append(lines, "port "+r.ports[0].String())
	}
	demand := "no"
	if opts.ClientCert {
		demand = "yes"
	}
	lines = append(lines, "port 0", "tls-port "+r.ports[0].String(), "tls-auth-clients "+demand)
	return append(lines, tlsLines(r.certs)...)
}

func tlsLines(c *certs) []string {
	return []string{"tls-ca-cert-file " + c.ca, "tls-cert-file " + c.server, "tls-key-file " + c.serverKey}
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
	if err != nil || r.password == "" {
		return c, err
	}
	if _, err := c.do("AUTH", r.password); err != nil { // which MONITOR does not show
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

// pollRedis polls one server after the other; what says what they are.
func pollRedis(ctx context.Context, what string, all []*Redis, try func(ctx context.Context, r *Redis) error) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	for _, r := range all {
		if err := Poll(ctx, func(ctx context.Context) error { return try(ctx, r) }); err != nil {
			return fmt.Errorf("%s at %s: %w", what, r.Addr(), err)
		}
	}
	return nil
}
