// Package zookeeper takes locks on ZooKeeper.
//
//	l, err := zookeeper.Connect(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"})
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// Those who want a name queue up under a container node for it, /locker/orders%2F42 (bytes other than ASCII letters,
// digits and -_.~:,=@+ are escaped as %XX), each with an ephemeral sequential node, whose form is described in
// docs/design/zookeeper.md. Deleting that takes the lock away. Any other child counts as an exclusive claim: what a later
// version writes there is respected, and what does not belong there has to be removed.
//
// All locks of a Locker share one session. Its timeout is the TTL less what servers let it live beyond that, and what
// they grant, by default from 2 to 20 ticks. A lock counts as lost when the leader may have let the session expire. With
// the usual tick of 2 s the names of a dead holder may stay taken for 7 s, however short the TTL is.
//
// Servers have to be of version 3.5.3 or later, as earlier ones have no containers. Who locks needs the permissions to
// read, write, create and delete on what is below /locker, and to read, create and delete on /locker itself. Lock.Wanted is
// never closed. A name that is kept taken after its release is freed by the Locker that released it, or by whoever asks
// for it next: one that nobody asks for after the death of its process keeps that one node. A name too long for the
// servers' jute.maxbuffer is refused: a request has it twice, with three bytes for each that is escaped.
package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/names"
)

type settings struct {
	chroot string
	auth   []credential
	acl    []zk.ACL
	tls    *tls.Config
}

type credential struct{ scheme, data string }

// WithChroot puts all nodes below a path, which is made if it is not there. Lockers
// with different paths have nothing to do with each other. No element of a path may be
// "locker": below one of that name are the queues of another Locker.
func WithChroot(chroot string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if !strings.HasPrefix(chroot, "/") || path.Clean(chroot) != chroot {
			return fmt.Errorf("chroot %q is not a path like /app", chroot)
		}
		if slices.Contains(strings.Split(chroot, "/"), "locker") {
			return fmt.Errorf("chroot %q has an element that is called locker, below which are other Lockers' queues", chroot)
		}
		s.chroot = strings.TrimSuffix(chroot, "/")
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

// Connect connects to the ensemble of which servers, host:port each, are members,
// and opens a session. Port 2181 may be left out, but an IPv6 address
// needs its port. When no server can be used it keeps trying for as long as ctx allows;
// without a deadline it gives up when each of them has failed.
func Connect(ctx context.Context, servers []string, opts ...locker.Option) (locker.Locker, error) {
	d, cfg, err := connect(ctx, servers, opts)
	if err != nil {
		return nil, err
	}
	return locker.New(d, cfg)
}

func connect(ctx context.Context, servers []string, opts []locker.Option) (*backend, *locker.Config, error) {
	set := settings{acl: zk.WorldACL(zk.PermAll)}
	cfg, err := locker.NewConfig("zookeeper", &set, opts...)
	if err != nil {
		return nil, nil, err
	}
	odd := func(server string) bool { return server == "" || strings.ContainsAny(server, "/, ") }
	if len(servers) == 0 || slices.ContainsFunc(servers, odd) {
		return nil, nil, locker.InvalidOption("zookeeper", fmt.Errorf("servers %q are not a list of host:port", servers))
	}
	// A dead holder's locks are to be free a second after the TTL at the latest. The leader rounds up to its next tick,
	// mostly of 2 s, may have heard of the holder from a follower half a tick late, and then has something to do. A third
	// of the TTL is just enough for the shortest session, of two ticks.
	ask := cfg.TTL - min(3*time.Second-time.Second*2/3, cfg.TTL/3)
	s := newSession(servers, ask, cfg, set)
	d := &backend{session: s, base: set.chroot + "/locker"}
	_, patient := ctx.Deadline()
	if _, err := s.usable(ctx, patient); err != nil {
		_ = d.Close(ctx)
		if ctx.Err() != nil {
			if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
				err = fmt.Errorf("%w: %w", cause, err)
			}
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return nil, nil, &locker.Error{Op: "open", Backend: "zookeeper", Err: err}
	}
	s.mu.Lock()
	timeout := s.timeout
	s.mu.Unlock()
	if timeout > ask {
		cfg.Logger.Warn("zookeeper: the servers grant no session as short as the TTL asks for: "+
			"a dead holder's names may stay taken for longer than it and a second", "ttl", cfg.TTL, "session", timeout)
	}
	// Nothing is held for longer than a session, and the core reckons by the TTL.
	d.ttl = min(cfg.TTL, timeout)
	cfg.TTL = d.ttl
	return d, cfg, nil
}

// queuePath returns the path of the node under which those queue who want name.
func (d *backend) queuePath(name string) string { return d.base + "/" + names.Escape(name) }

// backend is the driver.
type backend struct {
	*session
	base  string        // path of the queues
	based atomic.Bool   // it is there, and who is here may use what is made with the ACL
	ttl   time.Duration // how long the session lives, or the TTL if that is less

	watched sync.Map // path of a node to the channel of its next change; see watch
}

func (d *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "zookeeper", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true,
		LeaseBySession: true, Check: min(d.ttl/10, 500*time.Millisecond),
	}
}
