// Command one-leader does its work in the one replica that leads. Ctrl-C ends it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed80cd6120/locker"
	_ "github.com/seed80cd6120/locker/file" // for file://; import the packages of the servers that you use
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	l, err := locker.Open(ctx, cmp.Or(os.Getenv("LOCKER_URL"), "file://"), locker.WithTTL(5*time.Second))
	if err != nil {
		return err
	}
	defer l.Close(context.WithoutCancel(ctx))
	fmt.Println("campaigning as process", os.Getpid())
	return locker.Lead(ctx, l, "scheduler", lead)
}

// lead does the leader's work until ctx ends: the lead is lost, or the program is to end.
func lead(ctx context.Context, lock *locker.Lock) error {
	fmt.Println("leading with token", lock.Token())
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			fmt.Println("no longer leading:", context.Cause(ctx))
			return ctx.Err()
		case <-tick.C:
			fmt.Println("working")
		}
	}
}
