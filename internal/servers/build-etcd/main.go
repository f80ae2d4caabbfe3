// Command build-etcd builds the etcd that the tests run, once, and prints where it is.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/seed80cd6120/locker/internal/servers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := servers.BuildEtcd(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}
