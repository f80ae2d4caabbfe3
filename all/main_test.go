package all

import (
	"flag"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/seed80cd6120/locker/internal/leaks"
)

// What Open made is gone after Close, goroutines included.
func TestMain(m *testing.M) {
	flag.Parse()
	logging.Disable()
	leaks.Main(m)
}
