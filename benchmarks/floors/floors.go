// Package floors has the bare calls without which a lock cannot be: one that takes a
// name and one that gives it back. They know no waiting, so they are measured alone
// only. What a lock costs above its floor is what its promises cost.
package floors

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// All returns the floors in the order of the report.
func All() []contender.Contender {
	one := contender.Setup{Service: contender.Redis, Nodes: 1}
	all := []contender.Contender{floor("SET NX PX + compare-and-delete", "floor", one, openRedis)}
	for _, s := range []contender.Setup{
		{Service: contender.ZooKeeper, Nodes: 1},
		{Service: contender.ZooKeeper, Nodes: 1, Variant: contender.NoSync},
		{Service: contender.ZooKeeper, Nodes: 3},
	} {
		all = append(all, floor("create + delete", "floor", s, openZooKeeper))
	}
	for _, nodes := range []int{1, 3} {
		all = append(all, floor("put + delete", "floor", contender.Setup{Service: contender.Etcd, Nodes: nodes}, openEtcd))
	}
	return append(all, floor("insert + delete, in an unlogged table", "floor", contender.Setup{Service: contender.Postgres, Nodes: 1}, openPostgres))
}

func floor(calls, family string, s contender.Setup, open func(context.Context, contender.Config) (contender.Client, error)) contender.Contender {
	return contender.Contender{
		Name:   "floor-" + s.String(),
		Family: family,
		Role:   contender.Floor,
		Setup:  s,
		Note:   calls,
		Open:   open,
	}
}

type held func(ctx context.Context) error

func (held) Token() int64                        { return 0 }
func (h held) Release(ctx context.Context) error { return h(ctx) }

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

type redisFloor struct {
	conn *redis.Client
	ttl  time.Duration
}

func openRedis(_ context.Context, cfg contender.Config) (contender.Client, error) {
	return redisFloor{dial.Redis(cfg.Addrs[0]), cfg.TTL}, nil
}

func (f redisFloor) Acquire(ctx context.Context, name string) (contender.Held, error) {
	value := rand.Text()
	err := f.conn.SetArgs(ctx, name, value, redis.SetArgs{Mode: "NX", TTL: f.ttl}).Err()
	if err == redis.Nil {
		return nil, contender.ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return held(func(ctx context.Context) error {
		n, err := compareAndDelete.Run(ctx, f.conn, []string{name}, value).Int()
		if err == nil && n != 1 {
			err = fmt.Errorf("not mine any more")
		}
		return err
	}), nil
}

func (f redisFloor) Close() error { return f.conn.Close() }

type etcdFloor struct{ conn *clientv3.Client }

func openEtcd(ctx context.Context, cfg contender.Config) (contender.Client, error) {
	conn, err := dial.Etcd(ctx, cfg.Addrs)
	if err != nil {
		return nil, err
	}
	return etcdFloor{conn}, nil
}

func (f etcdFloor) Acquire(ctx context.Context, name string) (contender.Held, error) {
	if _, err := f.conn.Put(ctx, name, ""); err != nil {
		return nil, err
	}
	return held(func(ctx context.Context) error {
		_, err := f.conn.Delete(ctx, name)
		return err
	}), nil
}

func (f etcdFloor) Close() error { return f.conn.Close() }

type zooKeeperFloor struct{ conn *zk.Conn }

func openZooKeeper(ctx context.Context, cfg contender.Config) (contender.Client, error) {
	conn, err := dial.ZooKeeper(ctx, cfg.Addrs, cfg.TTL)
	if err != nil {
		return nil, err
	}
	return zooKeeperFloor{conn}, nil
}

func (f zooKeeperFloor) Acquire(_ context.Context, name string) (contender.Held, error) {
	path := "/" + strings.ReplaceAll(url.PathEscape(name), "/", "-")
	_, err := f.conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if err == zk.ErrNodeExists {
		return nil, contender.ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return held(func(context.Context) error { return f.conn.Delete(path, -1) }), nil
}

func (f zooKeeperFloor) Close() error {
	f.conn.Close()
	return nil
}
