// Package floors has the bare calls without which a lock cannot be: one that takes a
// name and one that gives it back. They know no waiting, so they are measured alone
// only. What a lock costs above its floor is what its promises cost.
package floors

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// All returns the floors in the order of the report.
func All() []contender.Contender {
	zooKeeper := contender.ZooKeeper1
	return contender.List(contender.Floor,
		floor("SET NX PX + compare-and-delete", openRedis, contender.Redis1),
		floor("create + delete", openZooKeeper, zooKeeper, zooKeeper.But(contender.NoSync), zooKeeper.Of(3)),
		floor("put + delete", openEtcd, contender.Etcd1, contender.Etcd1.Of(3)),
		floor("insert + delete, in an unlogged table", openPostgres, contender.Postgres1),
	)
}

type opening func(context.Context, contender.Config) (contender.Client, error)

func floor(calls string, open opening, on ...contender.Setup) (all []contender.Contender) {
	for _, s := range on {
		all = append(all, contender.Contender{Name: "floor-" + s.String(), Family: "floor", Setup: s, Note: calls, Open: open})
	}
	return all
}

var errNotMine = errors.New("not mine any more")

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

func openRedis(_ context.Context, cfg contender.Config) (contender.Client, error) {
	conn := dial.Redis(cfg.Addrs[0])
	return contender.Client{
		Acquire: func(ctx context.Context, name string) (contender.Held, error) {
			value := rand.Text()
			err := conn.SetArgs(ctx, name, value, redis.SetArgs{Mode: "NX", TTL: cfg.TTL}).Err()
			return contender.Plain(func(ctx context.Context) error {
				n, err := compareAndDelete.Run(ctx, conn, []string{name}, value).Int()
				if err == nil && n != 1 {
					err = errNotMine
				}
				return err
			}), err
		},
		Close: conn.Close,
	}, nil
}

func openEtcd(ctx context.Context, cfg contender.Config) (contender.Client, error) {
	conn, err := dial.Etcd(ctx, cfg.Addrs)
	if err != nil {
		return contender.Client{}, err
	}
	return contender.Client{
		Acquire: func(ctx context.Context, name string) (contender.Held, error) {
			_, err := conn.Put(ctx, name, "")
			return contender.Plain(func(ctx context.Context) error {
				_, err := conn.Delete(ctx, name)
				return err
			}), err
		},
		Close: conn.Close,
	}, nil
}

func openZooKeeper(ctx context.Context, cfg contender.Config) (contender.Client, error) {
	conn, err := dial.ZooKeeper(ctx, cfg.Addrs, cfg.TTL)
	if err != nil {
		return contender.Client{}, err
	}
	return contender.Client{
		Acquire: func(_ context.Context, name string) (contender.Held, error) {
			path := "/" + strings.ReplaceAll(url.PathEscape(name), "/", "-")
			_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			return contender.Plain(func(context.Context) error { return conn.Delete(path, -1) }), err
		},
		Close: contender.Closing(conn.Close),
	}, nil
}

func openPostgres(ctx context.Context, cfg contender.Config) (contender.Client, error) {
	pool, err := dial.Postgres(ctx, cfg.Addrs[0], dial.Connections)
	if err != nil {
		return contender.Client{}, err
	}
	_, err = pool.Exec(ctx, "create unlogged table if not exists floor (name text primary key)")
	return contender.Client{
		Acquire: func(ctx context.Context, name string) (contender.Held, error) {
			tag, err := pool.Exec(ctx, "insert into floor values ($1) on conflict do nothing", name)
			if err == nil && tag.RowsAffected() == 0 {
				err = contender.ErrTaken
			}
			return contender.Plain(func(ctx context.Context) error {
				_, err := pool.Exec(ctx, "delete from floor where name = $1", name)
				return err
			}), err
		},
		Close: contender.Closing(pool.Close),
	}, err
}
