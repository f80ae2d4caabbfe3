// Package site starts the servers of a comparison, as users would run them, and counts
// what they are asked.
//
// The servers are those of internal/servers, but with the durations and the fsync that
// their own documentation gives a user; see [Durability].
package site

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Durability says, for the report, how each kind of server treats its disk, and what
// else about it is not the default.
var Durability = map[contender.Service]string{
	contender.File:      "a folder beside those of the servers; nothing is synced",
	contender.Redis:     "no append-only file, no snapshots: nothing is synced, as with Redis's defaults between two snapshots",
	contender.ZooKeeper: "every write synced before it is answered (forceSync=yes, the default), but where the name says nosync; tickTime 500 ms instead of 2 s, so that sessions of two seconds are allowed",
	contender.Postgres:  "every commit of a logged table synced before it is answered (the default); max_connections 2000 instead of 100, shared_buffers 128 MB (the default)",
	contender.MariaDB:   "every commit synced before it is answered (innodb_flush_log_at_trx_commit=1, the default), no binary log; max_connections 2000 instead of 151, buffer pool 128 MB (the default)",
	contender.Etcd:      "every write synced before it is answered (the default)",
}

// Site is the servers of one Setup.
type Site struct {
	Setup contender.Setup
	// Addrs is what clients connect to.
	Addrs []string
	// Version is what the server said of itself.
	Version string

	Redis     []*servers.Redis
	ZooKeeper *servers.ZooKeeperEnsemble
	Etcd      *servers.EtcdCluster
	Postgres  *servers.Postgres
	MariaDB   *servers.MariaDB

	ends []func() error // in order: of networks before the servers, and of these if they are not another Site's
}

// Given are addresses of servers that run already, by kind. They are neither emptied nor
// stopped.
type Given map[contender.Service][]string

// Start starts what setup says and returns when it serves.
func Start(ctx context.Context, setup contender.Setup, given Given) (*Site, error) {
	enough := len(given[setup.Service]) >= setup.Nodes && setup.Variant == contender.Usual
	opts := zooKeeperOptions(setup)
	if enough {
		opts = servers.ZooKeeperOptions{}
	}
	return startWith(ctx, setup, opts, !enough)
}

// StartZooKeeperWith starts ZooKeeper as Start does, with system properties of its JVM.
func StartZooKeeperWith(ctx context.Context, setup contender.Setup, properties map[string]string) (*Site, error) {
	opts := zooKeeperOptions(setup)
	opts.Properties = properties
	return startWith(ctx, setup, opts, true)
}

func zooKeeperOptions(setup contender.Setup) servers.ZooKeeperOptions {
	return servers.ZooKeeperOptions{Tick: 500 * time.Millisecond, Sync: setup.Variant != contender.NoSync, FullJIT: true}
}

func startWith(ctx context.Context, setup contender.Setup, zooKeeper servers.ZooKeeperOptions, sync bool) (*Site, error) {
	s := &Site{Setup: setup}
	var err error
	switch setup.Service {
	case contender.File: // a folder where servers have theirs
		var dir string
		if dir, err = os.MkdirTemp(os.Getenv(servers.DirVariable), "locker-compare-"); err == nil {
			s.serves(func() error { return os.RemoveAll(dir) }, dir)
		}
	case contender.Redis:
		s.Redis, err = servers.StartRedisSet(ctx, setup.Nodes, servers.RedisOptions{})
		for _, r := range s.Redis {
			s.serves(r.Close, r.Addr())
		}
	case contender.ZooKeeper:
		if s.ZooKeeper, err = servers.StartZooKeeperEnsemble(ctx, setup.Nodes, zooKeeper); err == nil {
			s.serves(s.ZooKeeper.Close, s.ZooKeeper.Addrs()...)
		}
	case contender.Etcd:
		if s.Etcd, err = servers.StartEtcdCluster(ctx, setup.Nodes, servers.EtcdOptions{Sync: sync}); err == nil {
			s.serves(s.Etcd.Close, s.Etcd.Addrs()...)
		}
	case contender.Postgres:
		if s.Postgres, err = servers.StartPostgres(ctx, servers.PostgresOptions{Args: []string{
			"-c", "fsync=on", "-c", "full_page_writes=on", "-c", "max_connections=2000", "-c", "shared_buffers=128MB",
		}}); err == nil {
			s.serves(s.Postgres.Close, s.Postgres.Addr())
		}
	case contender.MariaDB:
		if s.MariaDB, err = servers.StartMariaDB(ctx, servers.MariaDBOptions{Args: []string{
			"--innodb-flush-log-at-trx-commit=1", "--max-connections=2000", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M",
			"--table-open-cache=2000",
		}}); err == nil {
			s.serves(s.MariaDB.Close, s.MariaDB.Addr())
		}
	}
	if err == nil && setup.Variant == contender.BlackHole {
		err = s.behind(1, (*proxy.Proxy).BlackHole)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Version = s.version(ctx)
	return s, nil
}

// serves adds what clients connect to, and how it ends.
func (s *Site) serves(end func() error, addrs ...string) {
	s.Addrs, s.ends = append(s.Addrs, addrs...), append(s.ends, end)
}

// Delayed makes a Site out of the servers of another one, with a network before them on which
// a round trip takes so much longer, half of it in each direction.
func (s *Site) Delayed(roundTrip time.Duration) (*Site, error) {
	d := *s
	d.ends = nil
	if err := d.behind(len(d.Addrs), func(p *proxy.Proxy) { p.Delay(roundTrip/2, roundTrip-roundTrip/2) }); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &d, nil
}

// behind puts a proxy that change has changed before each of the first n servers.
func (s *Site) behind(n int, change func(*proxy.Proxy)) error {
	s.Addrs = slices.Clone(s.Addrs)
	for i, addr := range s.Addrs[:n] {
		p, err := proxy.New(addr)
		if err != nil {
			return err
		}
		change(p)
		s.ends = slices.Insert(s.ends, 0, p.Close)
		s.Addrs[i] = p.Addr()
	}
	return nil
}

// Close ends the servers that were started here, and networks.
func (s *Site) Close() error {
	var errs []error
	for _, end := range s.ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// version asks the first server what it is; "" if it does not say.
func (s *Site) version(ctx context.Context) string {
	switch s.Setup.Service {
	case contender.Memory, contender.File:
		return "none"
	case contender.Redis:
		text, _ := redisText(ctx, s.Redis[0], "INFO", "server")
		return "Redis " + field(text, "redis_version:")
	case contender.ZooKeeper:
		text, _ := s.ZooKeeper.Members[0].Word(ctx, "srvr")
		version, _, _ := strings.Cut(field(text, "Zookeeper version:"), "-")
		return "ZooKeeper " + version
	case contender.Etcd:
		text, _ := s.Etcd.Members[0].Get(ctx, "/version")
		_, v, _ := strings.Cut(text, `"etcdserver":"`)
		v, _, _ = strings.Cut(v, `"`)
		return "etcd " + v
	case contender.Postgres:
		v, _ := s.Postgres.Query(ctx, "select split_part(current_setting('server_version'), ' ', 1)")
		return "PostgreSQL " + v
	case contender.MariaDB:
		v, _ := s.MariaDB.Query(ctx, "select substring_index(version(), '-', 1)")
		return "MariaDB " + strings.TrimSpace(v)
	}
	return ""
}
