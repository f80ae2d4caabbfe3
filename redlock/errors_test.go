package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A server that wants a password answers a long command of a client without one with an
// error of the protocol, and hangs up. No waiting mends that.
func TestNoPasswordIsToldAtOnce(t *testing.T) {
	t.Parallel()
	l := open(t, addrs(servers.NewRedisSet(t, 3, servers.RedisOptions{Password: "secret"})))
	for op, take := range map[string]func(context.Context, string, ...locker.AcquireOption) (*locker.Lock, error){
		"acquire": l.Acquire, "try": l.TryAcquire,
	} {
		ctx := within(t, 20*time.Second)
		_, err := take(ctx, t.Name())
		var quorum *QuorumError
		if !errors.As(err, &quorum) || !strings.Contains(err.Error(), "NOAUTH") || ctx.Err() != nil {
			t.Errorf("%s: got %v, want the nodes' NOAUTH, before the ctx ends", op, err)
		}
	}
}
