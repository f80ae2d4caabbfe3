package faults

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Servers that do not let the client do what it asks for, or with whom it cannot agree
// on how to talk.
var accessRows = []Row{
	{Number: 29, Shows: []int{13}, Name: "credentials", Run: redisCredentials, Fresh: true, For: onAnyRedis,
		Backend: withOptions(servers.RedisOptions{Password: secret}),
		See:     "no password, a wrong one, a user who may not run scripts: an error that names it, and no key"},
	{Number: 29, Shows: []int{13}, Name: "credentials", Run: etcdCredentials, Fresh: true, For: []string{etcdFamily},
		Backend: onEtcdWith(servers.EtcdOptions{RootPassword: secret}),
		See:     "no user, a wrong password, a user who may not write: an error that names it, and no key"},
	{Number: 29, Shows: []int{13}, Name: "credentials", Run: zooKeeperCredentials, Fresh: true, For: []string{zooKeeperFamily},
		See: "no user or a wrong password where nodes are another's: an error that names it, and no node"},
	{Number: 29, Shows: []int{13}, Name: "tls", Run: untrusted, Fresh: true, For: []string{"redis-1", "redis-replica", "redlock-5"},
		Backend: withOptions(servers.RedisOptions{TLS: true}),
		See:     "an authority that is not known is named; plain text to a TLS port ends by ctx"},
	{Number: 29, Shows: []int{13}, Name: "tls", Run: untrusted, Fresh: true, For: []string{etcdFamily},
		Backend: onEtcdWith(servers.EtcdOptions{TLS: true}),
		See:     "an authority that is not known is named; plain text to a TLS port ends by ctx"},
	{Number: 29, Shows: []int{13}, Name: "tls", Run: untrusted, Fresh: true, For: []string{"redis-sentinel", "redis-cluster", zooKeeperFamily}, Backend: behindTLS,
		See: "an authority that is not known is named; plain text to a TLS port ends by ctx"},
	{Number: 29, Shows: []int{13}, Name: "tls-to-plain-port", Run: tlsToPlain, For: []string{redisFamily, redlockFamily, etcdFamily, zooKeeperFamily},
		See: "an error, by ctx at the latest"},
}

const secret = "secret"

func onEtcdWith(o servers.EtcdOptions) func(b Backend) Backend {
	return func(b Backend) Backend {
		b.Start = func(t testing.TB) *Servers {
			s := etcdServers(t, etcdMembers[b.Name], o)
			if o.RootPassword != "" {
				s.Access.User, s.Access.Password = "root", o.RootPassword
			}
			if o.TLS {
				s.Access.tls = func(string) *tls.Config { return s.Etcd[0].TLSConfig() }
			}
			return s
		}
		return b
	}
}

// refused asserts that who comes with the changed access is told why it is refused, by
// the constructor or by its calls, and never that the lock is taken. With hopeless it
// has to be told at once: no waiting mends it.
func (x *Exam) refused(what string, change func(a *Access), hopeless bool, words ...string) {
	x.Helper()
	_, access := x.network()
	change(&access)
	var c conformance.Client
	_, _, err := x.patiently("open", words, func(ctx context.Context) (err error) { c, err = Open(ctx, access); return err })
	if err != nil {
		if !named(err, words) {
			x.Errorf("%s: open: %v, want an error that names %q", what, err, words)
		}
		return
	}
	x.Explains(what, c, hopeless, words...)
	// What may have arrived has to be undone, where nobody listens: that goes on until the
	// ctx ends.
	if err := c.Close(x.Within(time.Second)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		x.Errorf("%s: close: %v", what, err)
	}
}

// as shows other credentials.
func as(user, password string) func(a *Access) {
	return func(a *Access) { a.User, a.Password = user, password }
}

func redisCredentials(x *Exam) {
	for _, r := range x.Redis {
		x.redis(r, "ACL", "SETUSER", "weak", "on", ">weak", "~*", "&*", "+@all", "-@scripting")
	}
	x.refused("no password", as("", ""), true, "NOAUTH")
	x.refused("a wrong password", as("", "guess"), true, "WRONGPASS")
	x.refused("a user without permission", as("weak", "weak"), true, "NOPERM")
	x.refused("a user who does not exist", as("nobody", secret), true, "WRONGPASS")
	x.Access.Password = secret
	a, _ := x.Player("A")
	x.Warm(a)
}

func etcdCredentials(x *Exam) {
	c, err := EtcdClient(x.Access)
	x.Must(err)
	defer c.Close()
	_, err = c.UserAdd(x.Within(10*time.Second), "weak", "weak")
	x.Must(err)
	x.refused("no user", as("", ""), true, "user name is empty")
	x.refused("a wrong password", as("root", "guess"), true, "authentication failed")
	x.refused("a user without permission", as("weak", "weak"), true, "permission denied")
	a, _ := x.Player("A")
	x.Warm(a)
}

// The folder of the queues belongs to somebody else.
func zooKeeperCredentials(x *Exam) {
	c, err := ZooKeeperConn(x.Within(10*time.Second), x.Addrs)
	x.Must(err)
	defer c.Close()
	_, err = c.Create("/locker", nil, 0, append(zk.DigestACL(zk.PermAll, "owner", secret), zk.WorldACL(zk.PermRead)...))
	x.Must(err)
	x.refused("no user", as("", ""), true, "not authenticated")
	x.refused("a wrong password", as("owner", "guess"), true, "not authenticated")
	x.Access.User, x.Access.Password = "owner", secret
	a, _ := x.Player("A")
	x.Warm(a)
}

// The client trusts another authority than the servers', or does not speak TLS at all.
func untrusted(x *Exam) {
	right := x.Access.tls
	if right == nil {
		certs := make(map[string]*tls.Config)
		for _, r := range x.Redis {
			certs[r.Addr()] = r.TLSConfig()
		}
		right = func(addr string) *tls.Config { return certs[addr] }
	}
	x.refused("an unknown authority", func(a *Access) {
		a.tls = func(addr string) *tls.Config {
			c := right(addr).Clone()
			c.RootCAs = x509.NewCertPool()
			return c
		}
	}, false, "certificate")
	x.refused("plain text", func(a *Access) { a.tls = nil }, false)
	x.Access.tls = right
	a, _ := x.Player("A")
	x.Warm(a)
}

// The client speaks TLS to servers that do not.
func tlsToPlain(x *Exam) {
	x.refused("TLS to a plain port", func(a *Access) {
		a.tls = func(string) *tls.Config { return &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12} }
	}, false)
}

// behindTLS has a row run on servers in front of which something ends TLS.
func behindTLS(b Backend) Backend {
	start := b.Start
	b.Start = func(t testing.TB) *Servers {
		s := start(t)
		cert, client, err := servers.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		s.Access.Via = make(map[string]string)
		for _, addr := range s.reached() {
			s.Access.Via[addr] = servers.EndTLS(t, cert, addr)
		}
		s.Access.tls = func(string) *tls.Config { return client }
		// By default go-redis dials a master five times, and for each asks all Sentinels, dialling each of them five times: its calls end by
		// their ctx while it does so, without a word of the certificate.
		s.Access.dials = 1
		return s
	}
	return b
}
