package etcd_test

import (
	"context"
	"log"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// address is where the examples find etcd: "localhost:2379" in your program.
var address = sync.OnceValue(func() string {
	e, err := servers.StartEtcd(context.Background(), servers.EtcdOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return e.Addr()
})
