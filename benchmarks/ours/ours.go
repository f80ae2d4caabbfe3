// Package ours puts the backends of this project into the comparison.
package ours

import (
	"context"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/etcd"
	"github.com/seed80cd6120/locker/file"
	"github.com/seed80cd6120/locker/memory"
	"github.com/seed80cd6120/locker/mysql"
	"github.com/seed80cd6120/locker/postgres"
	"github.com/seed80cd6120/locker/redis"
	"github.com/seed80cd6120/locker/redlock"
	"github.com/seed80cd6120/locker/zookeeper"
)

const defaults = "with its default options"

// All returns our backends in the order of the report.
func All() []contender.Contender {
	redlock5 := backend("redlock", 0, openRedLock)
	redlock5.Traits.Permits = false
	unfenced := backend("redlock", 0, openRedLock, redlock.WithoutFencing())
	unfenced.Traits.Permits, unfenced.Traits.Fenced = false, false
	return contender.List(contender.Ours,
		single("memory", contender.InProcess, "one process, no server; all clients on one memory.Store", backend("memory", 0, openMemory)),
		single("file", contender.Directory, "processes of one machine, no server; "+defaults, backend("file", 0, openFile)),
		single("redis", contender.Redis1, defaults, backend("redis", 0, openRedis)),
		redlock5.On(contender.Redis1.Of(5)),
		aside(single("redlock-5-unfenced", contender.Redis1.Of(5), "WithoutFencing", unfenced)),
		redlock5.On(contender.Redis1.Of(5).But(contender.BlackHole)),
		backend("zookeeper", time.Second, openZooKeeper).On(
			contender.ZooKeeper1, contender.ZooKeeper1.But(contender.NoSync), contender.ZooKeeper1.Of(3)),
		backend("etcd", 2*time.Second, openEtcd).On(contender.Etcd1, contender.Etcd1.Of(3)),
		single("postgres", contender.Postgres1, defaults+": unlogged tables", backend("postgres", time.Second, openPostgres)),
		aside(single("postgres-durable", contender.Postgres1, "with logged tables",
			backend("postgres", time.Second, openPostgres, postgres.Durable()))),
		single("mysql", contender.MariaDB1, defaults+", on MariaDB", backend("mysql", time.Second, openMySQL)),
	)
}

// single returns c on one setup, by a name of its own.
func single(name string, s contender.Setup, note string, c contender.Contender) []contender.Contender {
	c.Name, c.Setup, c.Note = name, s, note
	return []contender.Contender{c}
}

// aside returns contenders that differ from others in one respect.
func aside(all []contender.Contender) []contender.Contender {
	for i := range all {
		all[i].Aside = true
	}
	return all
}

// opening opens a Locker on servers; its Close closes its connections.
type opening func(ctx context.Context, addrs []string, opts []locker.Option) (locker.Locker, error)

// backend returns what all of a family have in common, with the shortest TTL that it accepts.
func backend(family string, least time.Duration, open opening, more ...locker.Option) contender.Contender {
	return contender.Contender{
		Family: family,
		Note:   defaults,
		Traits: contender.Traits{Waits: true, Renews: true, Fenced: true, Shared: true, Permits: true, HandOver: true, MinTTL: least},
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			opts := append(slices.Clone(more), locker.WithTTL(cfg.TTL), locker.WithHandOver(cfg.HandOver))
			l, err := open(ctx, cfg.Addrs, opts)
			if err != nil {
				return contender.Client{}, err
			}
			return client(l), nil
		},
	}
}

func client(l locker.Locker) contender.Client {
	return contender.Client{
		Acquire: func(ctx context.Context, name string) (contender.Held, error) {
			return held(l.Acquire(ctx, name))
		},
		AcquireKind: func(ctx context.Context, name string, k contender.Kind) (contender.Held, error) {
			return held(l.Acquire(ctx, name, options(k)...))
		},
		Close: func() error { // it releases what is held
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return l.Close(ctx)
		},
	}
}

// held returns no Held, instead of one that is nil, with an error.
func held(l *locker.Lock, err error) (contender.Held, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func options(k contender.Kind) (opts []locker.AcquireOption) {
	if k.Shared {
		opts = append(opts, locker.Shared())
	}
	if k.Permits > 0 {
		opts = append(opts, locker.Permits(k.Permits, k.Of))
	}
	if k.Lease > 0 {
		opts = append(opts, locker.WithLease(k.Lease))
	}
	return opts
}

// store is what all memory Lockers of this process share.
var store = memory.NewStore()

func openMemory(_ context.Context, _ []string, opts []locker.Option) (locker.Locker, error) {
	return store.Locker(opts...)
}

func openFile(_ context.Context, addrs []string, opts []locker.Option) (locker.Locker, error) {
	return file.New(addrs[0], opts...)
}

func openRedis(_ context.Context, addrs []string, opts []locker.Option) (locker.Locker, error) {
	conn := dial.Redis(addrs[0])
	return redis.New(conn, append(opts, locker.WithOnClose(conn.Close))...)
}

func openRedLock(_ context.Context, addrs []string, opts []locker.Option) (locker.Locker, error) {
	var conns []goredis.UniversalClient
	for _, addr := range addrs {
		conn := dial.Redis(addr)
		conns = append(conns, conn)
		opts = append(opts, locker.WithOnClose(conn.Close))
	}
	return redlock.New(conns, opts...)
}

func openZooKeeper(ctx context.Context, addrs []string, opts []locker.Option) (locker.Locker, error) {
	return zookeeper.Connect(ctx, addrs, opts...)
}

func openEtcd(ctx context.Context, addrs []string, opts []locker.Option) (locker.Locker, error) {
	conn, err := dial.Etcd(ctx, addrs)
	if err != nil {
		return nil, err
	}
	return etcd.New(conn, append(opts, locker.WithOnClose(conn.Close))...)
}

func openPostgres(ctx context.Context, addrs []string, opts []locker.Option) (locker.Locker, error) {
	pool, err := dial.Postgres(ctx, addrs[0], dial.Connections)
	if err != nil {
		return nil, err
	}
	return postgres.New(pool, append(opts, locker.WithOnClose(contender.Closing(pool.Close)))...)
}

func openMySQL(_ context.Context, addrs []string, opts []locker.Option) (locker.Locker, error) {
	db, err := dial.MariaDB(addrs[0], dial.Connections)
	if err != nil {
		return nil, err
	}
	return mysql.New(db, append(opts, locker.WithOnClose(db.Close))...)
}

var (
	_ contender.Dated   = (*locker.Lock)(nil)
	_ contender.Watched = (*locker.Lock)(nil)
)
