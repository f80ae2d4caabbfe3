package etcd_test

import (
	"context"
	"flag"
	"log"
	"os"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() { // the examples need a server
		_ = flag.Set("test.skip", "^Example")
	}
	code := m.Run()
	if err := servers.StopAll(); err != nil {
		log.Print(err)
	}
	os.Exit(code)
}

// address is where the examples find etcd: "localhost:2379" in your program.
var address = sync.OnceValue(func() string {
	e, err := servers.StartEtcd(context.Background(), servers.EtcdOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return e.Addr()
})
