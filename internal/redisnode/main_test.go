package redisnode

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells of every connection that fails
	servers.Main(m)
}
