package faults

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/redlock"
)

func init() {
	Register("redlock", func(_ context.Context, a Access) (conformance.Client, error) {
		a, end := a.alive()
		var clients []goredis.UniversalClient
		for _, addr := range a.Addrs {
			clients = append(clients, RedisClient(a, addr))
		}
		l, err := redlock.New(clients, a.Options()...)
		return ClientOf(l, err, func() error {
			end()
			var errs []error
			for _, c := range clients {
				errs = append(errs, c.Close())
			}
			return errors.Join(errs...)
		})
	})
}

// RedLock5 is RedLock on five servers that keep their data.
var RedLock5 = onRedis("redlock-5", redlockFamily)

// ExpireMajority makes an Expire for locks that are on several nodes.
func (s *Servers) ExpireMajority(before string) func(ctx context.Context, name string) error {
	return func(ctx context.Context, name string) error {
		n := 0
		return s.onKeys(ctx, before+name, func(r *servers.Redis, key string) error {
			if n++; n > len(s.Redis)/2+1 {
				return nil
			}
			return write(ctx, r, "PEXPIRE", key, "1")
		})
	}
}
