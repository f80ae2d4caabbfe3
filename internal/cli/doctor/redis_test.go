//go:build unix

package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/cli/finding"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The clients of the doctor ask for no maintenance notifications, as clients of go-redis do by default.
func TestNoMaintenanceNotifications(t *testing.T) {
	r := servers.NewRedis(t, servers.RedisOptions{})
	for scheme, c := range map[string]struct {
		check func(ctx context.Context, url string) ([]finding.Finding, error)
		asked string // when the client has connected
	}{
		"redis":         {checkRedis, "ping"},
		"redis+cluster": {checkRedis, "cluster"}, // which the server is none of
		"Redis+Cluster": {checkRedis, "cluster"},
		"redlock":       {checkRedLock, "ping"},
	} {
		p, sent := locktest.Recording(t, r.Addr())
		eventually.Is(t, scheme+": the server is asked", func() bool {
			_, err := c.check(locktest.Within(t, time.Minute), scheme+"://"+p.Addr())
			return sent(c.asked) && (err == nil || c.asked == "cluster")
		})
		if sent("maint_notifications") {
			t.Errorf("%s: the client asks for maintenance notifications", scheme)
		}
	}
}
