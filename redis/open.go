package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/openurl"
	"github.com/seed80cd6120/locker/internal/redisnode"
)

func init() {
	openurl.Register("redis", "rediss", "6379", openSingle, "prefix")
	openurl.Register("redis+sentinel", "rediss+sentinel", "26379", openSentinel,
		"prefix", "db", "sentinel-user", "sentinel-password-env", "sentinel-password-file")
	openurl.Register("redis+cluster", "rediss+cluster", "6379", openCluster, "prefix")
}

// maxDB is the greatest number of a database that a URL may have.
const maxDB = 1<<16 - 1

// openSingle opens redis://host:port/db.
func openSingle(_ context.Context, s *openurl.Server, opts ...locker.Option) (locker.Locker, error) {
	if len(s.Addresses) > 1 {
		return nil, fmt.Errorf("several hosts: want %s+sentinel:// or %s+cluster://", s.Scheme, s.Scheme)
	}
	db, err := openurl.Number("path", strings.TrimPrefix(s.Path, "/"), maxDB)
	if err != nil {
		return nil, err
	}
	return withClient(s, opts, goredis.NewClient(&goredis.Options{
		Addr: s.Addresses[0], Username: s.User, Password: s.Password, DB: db, TLSConfig: s.TLS,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}))
}

// openSentinel opens redis+sentinel://host:port,host:port/master. TLS is for the Sentinels and the master alike.
func openSentinel(_ context.Context, s *openurl.Server, opts ...locker.Option) (locker.Locker, error) {
	master := strings.TrimPrefix(s.Path, "/")
	if master == "" {
		return nil, errors.New("no name of a master: want it as the path")
	}
	db, err := openurl.Number("parameter db", s.Params["db"], maxDB)
	if err != nil {
		return nil, err
	}
	sentinelPassword, err := s.Secret("sentinel-password", "")
	if err != nil {
		return nil, err
	}
	if s.Params["sentinel-user"] != "" && sentinelPassword == "" {
		return nil, errors.New("a user without a password for the Sentinels")
	}
	return withClient(s, opts, goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: master, SentinelAddrs: s.Addresses,
		SentinelUsername: s.Params["sentinel-user"], SentinelPassword: sentinelPassword,
		Username: s.User, Password: s.Password, DB: db, TLSConfig: s.TLS,
	}))
}

// openCluster opens redis+cluster://host:port,host:port.
func openCluster(_ context.Context, s *openurl.Server, opts ...locker.Option) (locker.Locker, error) {
	if err := s.NoPath(); err != nil {
		return nil, err
	}
	return withClient(s, opts, goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: s.Addresses, Username: s.User, Password: s.Password, TLSConfig: s.TLS,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}))
}

// withClient returns a Locker on client, which Close closes.
func withClient(s *openurl.Server, opts []locker.Option, client goredis.UniversalClient) (l locker.Locker, err error) {
	defer func() {
		if err != nil {
			_ = client.Close()
		}
	}()
	if prefix, ok := s.Params["prefix"]; ok {
		if redisnode.CheckPrefix(prefix) != nil {
			return nil, errors.New("parameter prefix: want 1 to 100 bytes without braces and spaces")
		}
		opts = append(opts, WithPrefix(prefix))
	}
	return New(client, append(opts, locker.WithOnClose(client.Close))...)
}
