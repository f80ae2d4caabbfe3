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
	asked   int64   // how often it was asked for its count of statements

	properties map[string]string // of a ZooKeeper's JVM

	proxies []*proxy.Proxy // stand in front of nodes, or for one that never answers
	lent    bool           // the servers belong to another Site
}

// Given are addresses of servers that run already, by kind. They are neither emptied nor
// stopped.
type Given map[contender.Service][]string

// Start starts what setup says and returns when it serves.
func Start(ctx context.Context, setup contender.Setup, given Given) (*Site, error) {
	s := &Site{Setup: setup}
	var err error
	switch setup.Service {
	case contender.Memory:
		s.Version = "none"
	case contender.Redis:
		err = s.startRedis(ctx)
	case contender.ZooKeeper:
		err = s.startZooKeeper(ctx, len(given[setup.Service]) >= setup.Nodes && setup.Variant == contender.Usual)
	case contender.Etcd:
		err = s.startEtcd(ctx, len(given[setup.Service]) >= setup.Nodes)
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

// StartZooKeeperWith starts ZooKeeper as Start does, with system properties of its JVM.
func StartZooKeeperWith(ctx context.Context, setup contender.Setup, properties map[string]string) (*Site, error) {
	s := &Site{Setup: setup, properties: properties}
	if err := s.startZooKeeper(ctx, false); err != nil {
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
	hole, err := proxy.New(s.Addrs[0])
	if err != nil {
		return nil, err
	}
	hole.BlackHole()
	d := *s
	d.Setup.Variant = v
	d.proxies, d.lent = []*proxy.Proxy{hole}, true
	d.Addrs = append([]string{hole.Addr()}, s.Addrs[1:]...)
	return &d, nil
}

// Delayed makes a Site out of the servers of another one, with a network before them on which
// a round trip takes so much longer, half of it in each direction.
func (s *Site) Delayed(roundTrip time.Duration) (*Site, error) {
	d := *s
	d.Addrs, d.proxies, d.lent = nil, nil, true
	for _, addr := range s.Addrs {
		p, err := proxy.New(addr)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		p.Delay(roundTrip/2, roundTrip-roundTrip/2)
		d.proxies = append(d.proxies, p)
		d.Addrs = append(d.Addrs, p.Addr())
	}
	return &d, nil
}

func (s *Site) startRedis(ctx context.Context) (err error) {
	if s.Redis, err = servers.StartRedisSet(ctx, s.Setup.Nodes, servers.RedisOptions{}); err != nil {
		return err
	}
	for _, r := range s.Redis {
		s.Addrs = append(s.Addrs, r.Addr())
	}
	return nil
}

func (s *Site) startZooKeeper(ctx context.Context, given bool) error {
	opts := servers.ZooKeeperOptions{Tick: 500 * time.Millisecond, Sync: s.Setup.Variant != contender.NoSync, FullJIT: true, Properties: s.properties}
	if given {
		opts = servers.ZooKeeperOptions{}
	}
	if s.Setup.Nodes == 1 {
		z, err := servers.StartZooKeeper(ctx, opts)
		if err != nil {
			return err
		}
		s.ZooKeeper = &servers.ZooKeeperEnsemble{Members: []*servers.ZooKeeper{z}}
	} else {
		var err error
		if s.ZooKeeper, err = servers.StartZooKeeperEnsemble(ctx, s.Setup.Nodes, opts); err != nil {
			return err
		}
	}
	s.Addrs = s.ZooKeeper.Addrs()
	return nil
}

func (s *Site) startEtcd(ctx context.Context, given bool) (err error) {
	if s.Etcd, err = servers.StartEtcdCluster(ctx, s.Setup.Nodes, servers.EtcdOptions{Sync: !given}); err != nil {
		return err
	}
	s.Addrs = s.Etcd.Addrs()
	return nil
}

func (s *Site) startPostgres(ctx context.Context) (err error) {
	s.Postgres, err = servers.StartPostgres(ctx, servers.PostgresOptions{Args: []string{
		"-c", "fsync=on", "-c", "full_page_writes=on", "-c", "max_connections=2000", "-c", "shared_buffers=128MB",
	}})
	if err == nil {
		s.Addrs = []string{s.Postgres.Addr()}
	}
	return err
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
	s.mariaDB, err = dial.MariaDB(s.MariaDB.Addr(), 1)
	return err
}

// Close ends the servers that were started here.
func (s *Site) Close() error {
	var errs []error
	for _, p := range s.proxies {
		errs = append(errs, p.Close())
	}
	if s.lent {
		return errors.Join(errs...)
	}
	for _, r := range s.Redis {
		errs = append(errs, r.Close())
	}
	if s.ZooKeeper != nil {
		errs = append(errs, s.ZooKeeper.Close())
	}
	if s.Etcd != nil {
		errs = append(errs, s.Etcd.Close())
	}
	if s.Postgres != nil {
		errs = append(errs, s.Postgres.Close())
	}
	if s.mariaDB != nil {
		errs = append(errs, s.mariaDB.Close())
	}
	if s.MariaDB != nil {
		errs = append(errs, s.MariaDB.Close())
	}
	return errors.Join(errs...)
}

// version asks the first server what it is; "" if it does not say.
func (s *Site) version(ctx context.Context) string {
	switch s.Setup.Service {
	case contender.Redis:
		v, _ := s.Redis[0].Do(ctx, "INFO", "server")
		text, _ := v.(string)
		return "Redis " + field(text, "redis_version:")
	case contender.ZooKeeper:
		text, _ := s.ZooKeeper.Members[0].Word(ctx, "srvr")
		version, _, _ := strings.Cut(field(text, "Zookeeper version: "), "-")
		return "ZooKeeper " + version
	case contender.Etcd:
		body, _ := get(ctx, s.Etcd.Members[0].Endpoint()+"/version")
		_, v, _ := strings.Cut(string(body), `"etcdserver":"`)
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

// field returns the rest of the line that begins with name.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			return rest
		}
	}
	return ""
}
