// Command cron-once runs a job unless another replica does, or did within ten minutes.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/seed80cd6120/locker"
	_ "github.com/seed80cd6120/locker/file" // for file://; import the packages of the servers that you use
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	l, err := locker.Open(ctx, cmp.Or(os.Getenv("LOCKER_URL"), "file://"))
	if err != nil {
		return err
	}
	defer l.Close(ctx)

	lock, err := l.TryAcquire(ctx, "jobs/nightly", locker.AtLeast(10*time.Minute))
	if errors.Is(err, locker.ErrNotAcquired) {
		fmt.Println("another replica has the job")
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(job(lock.Context()), lock.Release(ctx))
}

// job does the work; ctx ends if the lock is lost.
func job(ctx context.Context) error {
	fmt.Println("the job runs")
	return ctx.Err()
}
