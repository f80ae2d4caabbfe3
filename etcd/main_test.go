package etcd_test

import (
	"context"
	"flag"
	"log"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() { // the examples need a server
		_ = flag.Set("test.skip", "^Example")
	}
	// The tests wait more than they work.
	if f := flag.Lookup("test.parallel"); f != nil {
		if n, err := strconv.Atoi(f.Value.String()); err == nil && n < 4 {
			_ = f.Value.Set("4")
		}
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
