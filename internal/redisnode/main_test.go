package redisnode

import (
	"log"
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis tells of every connection that fails
	code := m.Run()
	if err := servers.StopAll(); err != nil {
		log.Print(err)
	}
	os.Exit(code)
}
