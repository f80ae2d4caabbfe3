package all

import (
	"flag"
	"log"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What Open made is gone after Close, goroutines included.
func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable()
	goleak.VerifyTestMain(stopping{m}, goleak.IgnoreAnyFunction(servers.BackgroundFunc))
}

type stopping struct{ *testing.M }

// Run runs the tests and stops the servers.
func (s stopping) Run() int {
	code := s.M.Run()
	if err := servers.StopAll(); err != nil {
		log.Print(err)
		code = 1
	}
	return code
}
