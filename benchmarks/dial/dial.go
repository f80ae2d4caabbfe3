// Package dial makes the clients on which all contenders of one kind of server stand,
// so that none of them has a better connection than another.
package dial

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "github.com/go-sql-driver/mysql" // for sql.Open
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed80cd6120/locker/internal/servers/zkdial"
)

// Redis makes a go-redis client with its defaults, but for the maintenance
// notifications, which a Redis 7 answers with an error that would be logged.
func Redis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                     addr,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Etcd makes an etcd client with its defaults.
func Etcd(ctx context.Context, addrs []string) (*clientv3.Client, error) {
	cfg := clientv3.Config{Endpoints: addrs, DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd client: %w", err)
	}
	return client, nil
}

// Connections is how many a client of a database has, as with pgx's default on four processors.
const Connections = 4

// Postgres makes a pgx pool with its defaults, but for the number of connections.
func Postgres(ctx context.Context, addr string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("postgres://postgres@" + addr + "/postgres?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	return pgxpool.NewWithConfig(ctx, config)
}

// MariaDB makes a pool of go-sql-driver with its defaults, but for the number of connections, all of which are kept.
func MariaDB(addr string, connections int) (*sql.DB, error) {
	db, err := sql.Open("mysql", "root@tcp("+addr+")/app")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// ZooKeeper connects with go-zookeeper's own defaults and waits for the session.
func ZooKeeper(ctx context.Context, addrs []string, session time.Duration) (*zk.Conn, error) {
	return zkdial.Dial(ctx, addrs, session)
}

// Clients that complain of servers which an experiment has killed would only get
// between the lines of the report.
func init() { redis.SetLogger(silentRedis{}) }

type silentRedis struct{}

func (silentRedis) Printf(context.Context, string, ...any) {}
