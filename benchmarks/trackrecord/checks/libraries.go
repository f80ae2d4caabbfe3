package checks

import (
	"context"
	"maps"
	"net/url"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/rivals"
	"github.com/seed80cd6120/locker/benchmarks/rivals/suite"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Library is one column of the table.
type Library struct {
	Name    string
	Ours    bool
	Backend faults.Backend
	// Lacks says for each claim that the library does not make why it does not apply.
	Lacks map[Claim]string
}

// Offers reports whether the library claims what a check asks for.
func (l Library) Offers(c Check) bool {
	_, lacks := l.Lacks[c.Claim]
	_, lacksAlso := l.Lacks[c.Also]
	return !lacks && !lacksAlso
}

// Libraries are the columns.
func Libraries() []Library {
	all := []Library{
		rival("redsync-1", redis(1), noRedis, map[Claim]string{Majority: "one server"}),
		rival("redsync-5", redis(5), noRedis, nil),
		rival("redislock", redis(1), noRedis, map[Claim]string{Majority: "one server"}),
		rival("rueidislock", redis(1), map[Claim]string{
			Tokens: "none", Releases: "release is a CancelFunc", Knows: "release is a CancelFunc", Majority: "one server here",
			Session: "no sessions", inTree: "no tree", OneByOne: "all waiters are notified", Queues: "whoever is first", Ends: "no sessions",
		}, nil),
		rival("etcd.Mutex-1", etcd(1), map[Claim]string{
			Tokens: "not documented as such", Majority: "one member here", Deletes: "the signal is that of the session", inTree: "keys of its own prefix",
			Expires: "locks live by the session", Names: "a prefix of keys is asked for", Closes: "not documented",
		}, nil),
		rival("zk.Lock-1", zooKeeper(1), map[Claim]string{
			Ctx: "Lock takes no ctx", CtxError: "Lock takes no ctx", Releases: "Unlock takes no ctx", Told: "none", Deletes: "no signal of loss",
			Tokens: "none", Majority: "one server here", Expires: "locks live by the session", Tries: "Lock waits",
			Names: "a path is asked for", Cleans: "the folders of its queues stay", Closes: "not documented",
		}, nil),
	}
	for _, b := range []faults.Backend{faults.Redis1, faults.RedLock5, faults.Etcd1, faults.ZooKeeper1} {
		l := Library{Name: "locker/" + b.Family, Ours: true, Backend: b, Lacks: map[Claim]string{}}
		if b.Family != "redlock" {
			l.Lacks[Majority] = "one server here"
		}
		if b.Family == "redis" || b.Family == "redlock" {
			l.Lacks[Session], l.Lacks[inTree] = "no sessions", "no tree"
		}
		if b.Family == "etcd" || b.Family == "zookeeper" {
			l.Lacks[Expires] = "locks live by the session"
		}
		if b.Family == "etcd" {
			l.Lacks[inTree] = "keys of its own prefix"
		}
		all = append(all, l)
	}
	return all
}

const inTree Claim = "a queue in a shared tree"

var noRedis = map[Claim]string{
	Told: "none", Deletes: "no signal of loss", Tokens: "none", Session: "no sessions", inTree: "no tree",
	Wakes: "waiters ask again and again", OneByOne: "waiters ask again and again", Queues: "whoever asks at the right moment",
	Ends: "no sessions", Closes: "the client's own",
}

// setup makes the servers for a kind of lock.
type setup func(t testing.TB, kind string) *faults.Servers

func redis(n int) setup {
	return func(t testing.TB, kind string) *faults.Servers {
		s := faults.OnRedis(kind, "*", servers.NewRedisSet(t, n, servers.RedisOptions{}))
		s.EndSession, s.Waiting = nil, nil // no library's waiters show at the server
		if n > 1 {
			s.Expire = s.ExpireMajority("*")
		}
		return s
	}
}

func etcd(n int) setup {
	return func(t testing.TB, kind string) *faults.Servers {
		return faults.OnEtcd(kind, func(name string) string { return name + "/" }, servers.NewEtcdCluster(t, n, servers.EtcdOptions{}))
	}
}

func zooKeeper(n int) setup {
	return func(t testing.TB, kind string) *faults.Servers {
		e := servers.NewZooKeeperEnsemble(t, n, servers.ZooKeeperOptions{Tick: 500 * time.Millisecond})
		return faults.OnZooKeeper(kind, func(name string) string { return "/locks/" + url.PathEscape(name) }, e.Members)
	}
}

// rival is a library of others, by its name in the comparison.
func rival(name string, on setup, lacks, more map[Claim]string) Library {
	var c contender.Contender
	for _, r := range rivals.All() {
		if r.Name == name && r.Setup.Variant == contender.Usual {
			c = r
		}
	}
	if c.Name == "" {
		panic("there is no rival " + name)
	}
	all := maps.Clone(lacks)
	maps.Copy(all, more)
	kind := "rival:" + name
	faults.Register(kind, func(ctx context.Context, a faults.Access) (conformance.Client, error) {
		var addrs []string
		for _, addr := range a.Addrs {
			addrs = append(addrs, a.Through(addr))
		}
		return suite.Opener(c, addrs, true)(ctx, locker.WithTTL(a.TTL))
	})
	_, untold := all[Told]
	return Library{Name: name, Lacks: all, Backend: faults.Backend{
		Name: name, Family: c.Family, TTL: short, Death: short + time.Second, Offers: faults.Offers{Lost: !untold},
		Start: func(t testing.TB) *faults.Servers { return on(t, kind) },
	}}
}
