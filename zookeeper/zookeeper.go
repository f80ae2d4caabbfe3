// Package zookeeper takes locks on ZooKeeper.
//
//	l, err := zookeeper.Connect(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"})
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// Those who want a name queue up under a node for it, /locker/orders%2F42, each with
// an ephemeral sequential node that carries the owner's text. The first holds the
// name, and who finds itself alone knows that from the answer to the creation. Each of
// the others watches the node before its own, so that a release wakes
// one of them; and a waiter whom its predecessor's end makes the first knows that
// without asking. If the one directly behind the holder is of the same Locker, the release
// also makes the node of the Locker's next goroutine, in the same transaction. The fencing
// token is the czxid of the holder's node.
//
// # The session
//
// A Locker makes its own connection and has one session, which all its locks share.
// It asks for a session timeout a little shorter than the TTL, by a fifth or by 2.3 s,
// whichever is less, because servers let a session live until their next tick. They
// have limits of their own, by default from 2 to 20 ticks, and what they grant is what
// counts. When the session expires all locks are lost; waiters queue again in a new one.
// A session that may have expired, and that no server answers for, is given up.
//
// A lock counts as lost when the leader may have let the session expire: the session
// timeout after the last request that the leader is certain to know of. Pings and
// reads are answered by followers on their own, so while locks are held a request
// that the leader has to answer is sent now and then, one per session.
//
// With WithLease the session is renewed all the same, and the node is removed when the
// lease is over.
package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
)

type settings struct {
	chroot string
	auth   []credential
	acl    []zk.ACL
	tls    *tls.Config
	tick   time.Duration
	err    error
}

type credential struct{ scheme, data string }

func (s *settings) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s", locker.ErrInvalidOption, fmt.Sprintf(format, args...))
	}
}

// WithChroot puts all nodes below path, which is made if it is not there. Lockers
// with different paths have nothing to do with each other.
func WithChroot(path string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if path == "" || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' || strings.Contains(path, "//") {
			s.fail("chroot %q is not a path like /app", path)
		}
		s.chroot = strings.TrimSuffix(path, "/")
		return s.err
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
			s.fail("empty ACL")
		}
		s.acl = acl
		return s.err
	})
}

// WithTLS encrypts the connections. The server's name is checked against the host
// part of its address unless config has one.
func WithTLS(config *tls.Config) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if config == nil {
			s.fail("nil TLS configuration")
		}
		s.tls = config
		return s.err
	})
}

// WithTick tells the servers' tickTime, which they do not tell themselves. Without
// it half the session timeout is assumed, and 3 s at most, which is right for
// servers that tick no slower and grant no sessions of less than two ticks. With it
// locks survive longer interruptions on an ensemble with short ticks.
func WithTick(tick time.Duration) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if tick <= 0 || tick > time.Minute {
			s.fail("tick %v is not between 0 and 1m", tick)
		}
		s.tick = tick
		return s.err
	})
}

// Connect connects to the ensemble of which servers, host:port each, are members,
// and opens a session. Port 2181 may be left out. When no server can be used it
// keeps trying for as long as ctx allows; without a deadline it gives up when each of
// them has failed.
func Connect(ctx context.Context, servers []string, opts ...locker.Option) (locker.Locker, error) {
	d, cfg, err := connect(ctx, servers, opts)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: "zookeeper", Err: err}
	}
	l, err := locker.New(d, cfg)
	if err != nil {
		_ = d.Close(ctx)
		return nil, err
	}
	return l, nil
}

func connect(ctx context.Context, servers []string, opts []locker.Option) (*backend, *locker.Config, error) {
	set := settings{acl: zk.WorldACL(zk.PermAll)}
	cfg, err := locker.NewConfig("zookeeper", &set, opts...)
	if err != nil {
		return nil, nil, err
	}
	if len(servers) == 0 {
		set.fail("no servers")
	}
	for _, s := range servers {
		if s == "" || strings.ContainsAny(s, "/, ") {
			set.fail("server %q is not host:port", s)
		}
	}
	if set.err != nil {
		return nil, nil, set.err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	s, err := dialSession(servers, sessionTimeout(cfg.TTL, set.tick), cfg.Clock, cfg.Logger, set)
	if err != nil {
		return nil, nil, err
	}
	d := &backend{session: s, clock: cfg.Clock, base: set.chroot + folder, acl: set.acl,
		waiting: make(map[string]*waiter)}
	if err := d.probe(ctx); err != nil {
		_ = d.Close(ctx)
		return nil, nil, err
	}
	timeout := s.granted()
	d.check = min(timeout/10, 750*time.Millisecond)
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

// probe waits until a server has taken the session and the credentials, and finds
// out what it is too old for. It asks for what cannot be done; a server that does
// not know the request says so and hangs up.
func (d *backend) probe(ctx context.Context) error {
	_, patient := ctx.Deadline()
	for {
		w, err := d.session.usable(ctx, patient)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		if err != nil {
			return err
		}
		for _, q := range []struct {
			call    *call
			lacking *atomic.Bool
		}{
			{unwatchCall("/"), &d.old},
			{d.queueCall("/zookeeper"), &d.plain}, // which every server has
			{syncCall("/"), nil},
		} {
			if q.lacking != nil && q.lacking.Load() {
				continue
			}
			if err = w.ask(ctx, q.call); err != nil {
				break
			}
			if errors.Is(q.call.err, errUnimplemented) && q.lacking != nil {
				q.lacking.Store(true)
				_ = w.Close() // as the server will
				err = errBroken
				break
			}
		}
		if !errors.Is(err, errBroken) {
			return err
		}
	}
}
