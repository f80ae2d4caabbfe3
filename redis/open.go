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
)

func init() {
	openurl.Register("redis", "rediss", "6379", openURL(forSingle), "prefix")
	openurl.Register("redis+sentinel", "rediss+sentinel", "26379", openURL(forSentinel),
		"prefix", "db", "sentinel-user", "sentinel-password-env", "sentinel-password-file")
	openurl.Register("redis+cluster", "rediss+cluster", "6379", openURL(forCluster), "prefix")
}

// maxDB is the greatest number of a database that a URL may have.
const maxDB = 1<<16 - 1

// openURL returns what opens the URLs of one kind of Redis; kind sets the options that are special of its client.
func openURL(kind func(*openurl.Server, *goredis.UniversalOptions) error) openurl.Opener {
	return func(_ context.Context, s *openurl.Server, opts ...locker.Option) (locker.Locker, error) {
		o := &goredis.UniversalOptions{
			Addrs: s.Addresses, Username: s.User, Password: s.Password, TLSConfig: s.TLS,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}
		if err := kind(s, o); err != nil {
			return nil, err
		}
		if prefix, ok := s.Params["prefix"]; ok {
			opts = append(opts, WithPrefix(prefix))
		}
		client := goredis.NewUniversalClient(o)
		l, err := New(client, append(opts, locker.WithOnClose(client.Close))...)
		if err != nil {
			_ = client.Close()
		}
		return l, err
	}
}

// forSingle is for redis://host:port/db.
func forSingle(s *openurl.Server, o *goredis.UniversalOptions) (err error) {
	if len(s.Addresses) > 1 {
		return fmt.Errorf("several hosts: want %s+sentinel:// or %s+cluster://", s.Scheme, s.Scheme)
	}
	o.DB, err = openurl.Number("path", strings.TrimPrefix(s.Path, "/"), maxDB)
	return err
}

// forSentinel is for redis+sentinel://host:port,host:port/master. TLS is for the Sentinels and the master alike.
func forSentinel(s *openurl.Server, o *goredis.UniversalOptions) (err error) {
	o.MasterName, o.SentinelUsername = strings.TrimPrefix(s.Path, "/"), s.Params["sentinel-user"]
	if o.MasterName == "" {
		return errors.New("no name of a master: want it as the path")
	}
	if o.DB, err = openurl.Number("parameter db", s.Params["db"], maxDB); err != nil {
		return err
	}
	o.SentinelPassword, err = s.Secret("sentinel-password", "")
	if err == nil && o.SentinelUsername != "" && o.SentinelPassword == "" {
		err = errors.New("a user without a password for the Sentinels")
	}
	return err
}

// forCluster is for redis+cluster://host:port,host:port.
func forCluster(s *openurl.Server, o *goredis.UniversalOptions) error {
	o.IsClusterMode = true
	return s.NoPath()
}
