package zookeeper_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/zookeeper"
)

func Example() {
	ctx := context.Background()
	l, err := zookeeper.Connect(ctx, []string{address(ctx)}, locker.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	_, err = l.TryAcquire(ctx, "orders/42")
	fmt.Println("again:", err)
	fmt.Println("has a token:", lock.Token() > 0)
	fmt.Println("released:", lock.Release(ctx) == nil)

	// Output:
	// again: locker: zookeeper: try "orders/42": not acquired
	// has a token: true
	// released: true
}

// address is that of a server that is started for the example. You know yours.
func address(ctx context.Context) string {
	z, err := servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return z.Addr()
}
