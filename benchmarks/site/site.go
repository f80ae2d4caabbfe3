// Package site starts the servers of a comparison, as users would run them, and counts
// what they are asked.
//
// The servers are those of internal/servers, but with the durations and the fsync that
// their own documentation gives a user; see [Durability].
package site

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
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

	mariaDB *sql.DB // one connection to it

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
	case contender.File:
		err = s.makeDirectory()
	case contender.Redis:
		err = s.startRedis(ctx)
	case contender.ZooKeeper:
		if s.ZooKeeper, err = servers.StartZooKeeperEnsemble(ctx, setup.Nodes, zooKeeper); err == nil {
			s.Addrs = s.ZooKeeper.Addrs()
			s.ends = append(s.ends, s.ZooKeeper.Close)
		}
	case contender.Etcd:
		if s.Etcd, err = servers.StartEtcdCluster(ctx, setup.Nodes, servers.EtcdOptions{Sync: sync}); err == nil {
			s.Addrs = s.Etcd.Addrs()
			s.ends = append(s.ends, s.Etcd.Close)
		}
	case contender.Postgres:
		err = s.startPostgres(ctx)
	case contender.MariaDB:
		err = s.startMariaDB(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Version = s.version(ctx)
	return s, nil
}

// Derive makes a Site out of the servers of another one: the first node is replaced by
// one that accepts and never answers.
func (s *Site) Derive(v contender.Variant) (*Site, error) {
	if v != contender.BlackHole || s.Setup.Service != contender.Redis {
		return nil, fmt.Errorf("site: no %s of %s", v, s.Setup)
	}
	d, err := s.behind(s.Addrs[:1], func(p *proxy.Proxy) { p.BlackHole() })
	if err == nil {
		d.Setup.Variant = v
		d.Addrs = append(d.Addrs, s.Addrs[1:]...)
	}
	return d, err
}

// Delayed makes a Site out of the servers of another one, with a network before them on which
// a round trip takes so much longer, half of it in each direction.
func (s *Site) Delayed(roundTrip time.Duration) (*Site, error) {
	return s.behind(s.Addrs, func(p *proxy.Proxy) { p.Delay(roundTrip/2, roundTrip-roundTrip/2) })
}

// behind makes a Site out of some servers of another one, with a proxy before each that make has changed.
func (s *Site) behind(addrs []string, change func(*proxy.Proxy)) (*Site, error) {
	d := *s
	d.Addrs, d.ends = nil, nil
	for _, addr := range addrs {
		p, err := proxy.New(addr)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		change(p)
		d.ends = append(d.ends, p.Close)
		d.Addrs = append(d.Addrs, p.Addr())
	}
	return &d, nil
}

// makeDirectory makes a folder where servers have theirs.
func (s *Site) makeDirectory() error {
	dir, err := os.MkdirTemp(os.Getenv(servers.DirVariable), "locker-compare-")
	if err == nil {
		s.Addrs = []string{dir}
		s.ends = append(s.ends, func() error { return os.RemoveAll(dir) })
	}
	return err
}

func (s *Site) startRedis(ctx context.Context) (err error) {
	s.Redis, err = servers.StartRedisSet(ctx, s.Setup.Nodes, servers.RedisOptions{})
	for _, r := range s.Redis {
		s.Addrs = append(s.Addrs, r.Addr())
		s.ends = append(s.ends, r.Close)
	}
	return err
}

func (s *Site) startPostgres(ctx context.Context) (err error) {
	s.Postgres, err = servers.StartPostgres(ctx, servers.PostgresOptions{Args: []string{
		"-c", "fsync=on", "-c", "full_page_writes=on", "-c", "max_connections=2000", "-c", "shared_buffers=128MB",
	}})
	if err != nil {
		return err
	}
	s.Addrs = []string{s.Postgres.Addr()}
	s.ends = append(s.ends, s.Postgres.Close)
	return nil
}

func (s *Site) startMariaDB(ctx context.Context) (err error) {
	s.MariaDB, err = servers.StartMariaDB(ctx, servers.MariaDBOptions{Args: []string{
		"--innodb-flush-log-at-trx-commit=1", "--max-connections=2000", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M",
		"--table-open-cache=2000",
	}})
	if err != nil {
		return err
	}
	s.Addrs = []string{s.MariaDB.Addr()}
	if s.mariaDB, err = dial.MariaDB(s.MariaDB.Addr(), 1); err == nil {
		s.ends = append(s.ends, s.mariaDB.Close)
	}
	s.ends = append(s.ends, s.MariaDB.Close)
	return err
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
		text, _ := get(ctx, s.Etcd.Members[0].Endpoint()+"/version")
		_, v, _ := strings.Cut(text, `"etcdserver":"`)
		v, _, _ = strings.Cut(v, `"`)
		return "etcd " + v
	case contender.Postgres:
		v, _ := s.postgres(ctx, "select split_part(current_setting('server_version'), ' ', 1)")
		return "PostgreSQL " + v
	case contender.MariaDB:
		var v string
		_ = s.mariaDB.QueryRowContext(ctx, "select substring_index(version(), '-', 1)").Scan(&v)
		return "MariaDB " + v
	}
	return ""
}
