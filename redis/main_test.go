package redis

import (
	"fmt"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells of every connection that fails
	servers.Main(m)
}

var (
	must    = locktest.Must
	within  = locktest.Within
	acquire = locktest.Acquire
	release = locktest.Release
	front   = locktest.Front
	wants   = locktest.Begin
	lost    = locktest.Lost

	claim   = locktest.Claim
	take    = locktest.Take
	taken   = locktest.Taken
	free    = locktest.Free
	renewed = locktest.Renewed
	renewal = locktest.Renewal
)

// options are those of a client as most users have it, but for what servers
// before version 8 do not know.
func options(addr string) *goredis.Options {
	return &goredis.Options{
		Addr:                     addr,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func connect(t testing.TB, addr string) *goredis.Client {
	t.Helper()
	return closing(t, goredis.NewClient(options(addr)))
}

type closer interface{ Close() error }

func closing[C closer](t testing.TB, c C) C {
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// open makes a Locker that is closed when the test ends.
func open(t testing.TB, client goredis.UniversalClient, opts ...locker.Option) locker.Locker {
	t.Helper()
	l, err := New(client, opts...)
	must(t, err)
	locktest.CloseAfter(t, l.Close)
	return l
}

var used atomic.Int64

// freshName returns a name that no other test uses.
func freshName(t testing.TB) string {
	return fmt.Sprintf("%s/%d", t.Name(), used.Add(1))
}
