// Package zookeeper takes locks on ZooKeeper.
//
//	l, err := zookeeper.Connect(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"})
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// # What is on the servers
//
// Those who want a name queue up under a container node for it, /locker/orders%2F42 (bytes other
// than ASCII letters, digits and -_.~:,=@+ are escaped as %XX), each with an ephemeral sequential node:
//
//	<ID>-1-<weight>-<limit>-<number>          a claim; its data is the owner's text
//	<ID>-1-<weight>-<limit>-<ms>-<number>     was released, stays for so many ms from its ctime; persistent; its
//	                                          data is the token, a space, and the owner's text
//	<ID>-1-weight-<weight>                    the claim of that ID is so light now; ephemeral
//
// ID is 32 hexadecimal digits, 1 the version, weight and limit are decimal or "all": all-all is an exclusive
// claim, 1-all a shared one, 2-10 one for 2 of 10 permits. A claim holds the name when its weight and those of
// all with smaller numbers are together no more than its limit. Any other child counts as an
// exclusive claim at the place that its last ten digits say, or ahead of all if it has none: what a later
// version writes there is respected, and what does not belong there has to be removed.
//
// Each who has to wait watches the one node without whose change or end it cannot be granted, and lists
// the queue again when that comes; among permits, where any holder may be the one to go, the first that
// waits watches the queue, and who is granted writes to its node to tell the one behind it. The fencing token is
// the czxid of the holder's node times 1,024. Tokens are refused beyond an epoch of 21 bits.
//
// # What it costs
//
// A lock that is free takes two requests with its release, one that is waited for five; a try asks two more before it
// writes, and three for a name that was not used lately. A holder asks two when it has held for half a second, to be told of what happens to its node and of others who join. The session costs
// its pings and, while locks are held, a request that the leader answers now and then. A waiter costs nothing.
//
// # The session
//
// A Locker makes its own connection and has one session, which all its locks share. It asks for a session timeout a
// little shorter than the TTL, by a fifth or by 2.3 s, whichever is less, because servers let a session live until their
// next tick. They have limits of their own, by default from 2 to 20 ticks, and what they grant is what counts. When the
// session expires all locks are lost; waiters queue again in a new one. A session that may have expired, and that no
// server answers for, is given up.
//
// A lock counts as lost when the leader may have let the session expire: the session timeout after the last request
// that the leader is certain to know of. With WithLease the session is renewed all the same, and the node is removed
// when the lease is over.
//
// # What it cannot do
//
// Servers have no TTL for a name that is kept taken after its release: whoever asks for the name next removes what is
// over, or the Locker that released it, if it is still there. A name that nobody asks for again after the death of its
// process keeps that one node. A holder that waited is shown with the time at which it joined, as that at which it was
// granted is not written anywhere. A name that is too long for the servers' jute.maxbuffer is refused: a request has it
// twice, with three bytes for each that is escaped.
//
// Servers have to be of version 3.5.3 or later: earlier ones have no containers. Who locks needs the permissions to
// read, write, create and delete on what is below /locker, and to read and create on /locker itself.
package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
)

type settings struct {
	chroot string
	auth   []credential
	acl    []zk.ACL
	tls    *tls.Config
	tick   time.Duration
}

type credential struct{ scheme, data string }

// WithChroot puts all nodes below path, which is made if it is not there. Lockers
// with different paths have nothing to do with each other.
func WithChroot(path string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if path == "" || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' || strings.Contains(path, "//") {
			return fmt.Errorf("chroot %q is not a path like /app", path)
		}
		s.chroot = strings.TrimSuffix(path, "/")
		return nil
	})
}

// WithDigest authenticates with a user's name and password, on every connection.
// The servers believe any; the nodes' ACLs decide what it is good for.
func WithDigest(user, password string) locker.Option {
	return WithAuth("digest", []byte(user+":"+password))
}

// WithAuth authenticates by any scheme that the servers know.
func WithAuth(scheme string, data []byte) locker.Option {
	auth := credential{scheme, string(data)}
	return locker.BackendOption(func(s *settings) error { s.auth = append(s.auth, auth); return nil })
}

// WithACL sets the permissions of the nodes that are made. Without it everybody may
// do everything. Those who share locks need to read, write, create and delete.
func WithACL(acl ...zk.ACL) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if len(acl) == 0 {
			return errors.New("empty ACL")
		}
		s.acl = acl
		return nil
	})
}

// WithTLS encrypts the connections. The server's name is checked against the host
// part of its address unless config has one.
func WithTLS(config *tls.Config) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if config == nil {
			return errors.New("nil TLS configuration")
		}
		s.tls = config
		return nil
	})
}

// WithTick tells the servers' tickTime, which they do not tell themselves. Without
// it half the session timeout is assumed, and 3 s at most, which is right for
// servers that tick no slower and grant no sessions of less than two ticks. With it
// locks survive longer interruptions on an ensemble with short ticks.
func WithTick(tick time.Duration) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if tick <= 0 || tick > time.Minute {
			return fmt.Errorf("tick %v is not between 0 and 1m", tick)
		}
		s.tick = tick
		return nil
	})
}

// Connect connects to the ensemble of which servers, host:port each, are members,
// and opens a session. Port 2181 may be left out. When no server can be used it
// keeps trying for as long as ctx allows; without a deadline it gives up when each of
// them has failed.
func Connect(ctx context.Context, servers []string, opts ...locker.Option) (locker.Locker, error) {
	d, cfg, err := connect(ctx, servers, opts)
	if err != nil {
		return nil, err
	}
	l, err := locker.New(d, cfg)
	if err != nil {
		_ = d.Close(ctx)
		return nil, err
	}
	return l, nil
}

// checkServers returns an error for addresses that the library would not understand.
func checkServers(servers []string) error {
	if len(servers) == 0 {
		return errors.New("no servers")
	}
	for _, s := range servers {
		if s == "" || strings.ContainsAny(s, "/, ") {
			return fmt.Errorf("server %q is not host:port", s)
		}
	}
	return nil
}

func connect(ctx context.Context, servers []string, opts []locker.Option) (*backend, *locker.Config, error) {
	set := settings{acl: zk.WorldACL(zk.PermAll)}
	cfg, err := locker.NewConfig("zookeeper", &set, opts...)
	if err != nil {
		return nil, nil, err
	}
	if err := checkServers(servers); err != nil {
		return nil, nil, locker.InvalidOption("zookeeper", err)
	}
	failed := func(err error) (*backend, *locker.Config, error) {
		return nil, nil, &locker.Error{Op: "open", Backend: "zookeeper", Err: err}
	}
	if err := context.Cause(ctx); err != nil {
		return failed(err)
	}
	s, err := dialSession(servers, sessionTimeout(cfg.TTL, set.tick), cfg.Clock, cfg.Logger, set)
	if err != nil {
		return failed(err)
	}
	d := &backend{session: s, clock: cfg.Clock, log: cfg.Logger, base: set.chroot + folder, acl: set.acl}
	_, patient := ctx.Deadline()
	if _, err := s.usable(ctx, patient); err != nil {
		_ = d.Close(ctx)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return failed(err)
	}
	timeout := s.granted()
	d.check = min(timeout/10, 500*time.Millisecond)
	if timeout > cfg.TTL {
		cfg.Logger.Warn("zookeeper: the servers grant no session as short as the TTL", "ttl", cfg.TTL, "session", timeout)
	}
	// Nothing is held for longer than a session, and the core reckons by the TTL.
	cfg.TTL = min(cfg.TTL, timeout)
	return d, cfg, nil
}

// sessionTimeout is what to ask for so that a dead holder's locks are free a second
// after the TTL at the latest: the leader rounds up to its next tick, and may have heard of
// the holder from a follower half a tick late. A third of the second is for what they
// then have to do. Most servers tick every 2 s.
func sessionTimeout(ttl, tick time.Duration) time.Duration {
	if tick == 0 {
		tick = 2 * time.Second
	}
	return ttl - min(max(tick*3/2-time.Second*2/3, 0), ttl/5)
}

// backend is the driver.
type backend struct {
	session *session
	clock   driver.Clock
	log     *slog.Logger
	base    string // path of the queues
	acl     []zk.ACL
	check   time.Duration
	proven  atomic.Bool // the ACL lets those use what is made who are here
}

// Traits says how often to look after what is held: its nodes have to be watched, and the session
// has to be heard of.
func (d *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "zookeeper", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true,
		LeaseBySession: true, Check: d.check,
	}
}
