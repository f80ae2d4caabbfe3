package etcd_test

import (
	"context"
	"log"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

// Tests that work more than they wait do not run beside others, and so before the suites: a machine that is busy makes locks
// late.
func TestMain(m *testing.M) { servers.Main(m) }

// address is where the examples find etcd: "localhost:2379" in your program.
var address = sync.OnceValue(func() string {
	e, err := servers.StartEtcd(context.Background(), servers.EtcdOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return e.Addr()
})
