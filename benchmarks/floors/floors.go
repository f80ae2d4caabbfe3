// Package floors has the bare calls without which a lock cannot be: one that takes a
// name and one that gives it back. They know no waiting, so they are measured alone
// only; but for one, the bare queue on Redis. What a lock costs above its floor is what
// its promises cost.
package floors

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// All returns the floors in the order of the report.
func All() []contender.Contender {
	one := contender.Setup{Service: contender.Redis, Nodes: 1}
	queue := floor("a queue in two scripts and a message, of which nothing may be lost", "floor", one, openRedisQueue)
	queue.Name += "-queue"
	queue.Aside, queue.Traits.Waits = true, true
	all := []contender.Contender{floor("SET NX + compare-and-delete", "floor", one, openRedis), queue}
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
	transactions := floor("two transactions: put if nobody is there, delete if it is mine", "floor", contender.Setup{Service: contender.Etcd, Nodes: 1}, openEtcdTxn)
	transactions.Name += "-txn"
	return append(all, transactions)
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

// etcdTxnFloor is the least that two transactions can be: one that puts a key under a lease
// if nobody is there, and one that deletes it if it is the one that was put. They are put
// together by hand, as the backend does it, since the client takes longer.
type etcdTxnFloor struct {
	conn  *clientv3.Client
	kv    pb.KVClient
	lease clientv3.LeaseID
}

func openEtcdTxn(ctx context.Context, cfg contender.Config) (contender.Client, error) {
	conn, err := dial.Etcd(ctx, cfg.Addrs)
	if err != nil {
		return nil, err
	}
	lease, err := conn.Grant(ctx, 600)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return etcdTxnFloor{conn, pb.NewKVClient(conn.ActiveConnection()), lease.ID}, nil
}

func (f etcdTxnFloor) Acquire(ctx context.Context, name string) (contender.Held, error) {
	key := []byte(name + "/")
	put := &pb.TxnRequest{
		Compare: []*pb.Compare{{Target: pb.Compare_CREATE, Key: key, RangeEnd: []byte(name + "0"), TargetUnion: &pb.Compare_CreateRevision{}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Lease: int64(f.lease)}}}},
	}
	r, err := f.txn(ctx, put)
	if err != nil {
		return nil, err
	}
	remove := &pb.TxnRequest{
		Compare: []*pb.Compare{{Target: pb.Compare_CREATE, Key: key, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: r.Header.Revision}}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}},
	}
	return held(func(ctx context.Context) error {
		_, err := f.txn(ctx, remove)
		return err
	}), nil
}

func (f etcdTxnFloor) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	got, err := f.kv.Txn(ctx, r)
	if err == nil && !got.Succeeded {
		err = contender.ErrTaken
	}
	return got, err
}

func (f etcdTxnFloor) Close() error {
	_, err := f.conn.Revoke(context.Background(), f.lease)
	return errors.Join(err, f.conn.Close())
}

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
