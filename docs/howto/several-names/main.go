// Command several-names moves money between two accounts, and holds both meanwhile.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync"

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

	var all sync.WaitGroup
	for _, pair := range [][]string{{"account/3", "account/7"}, {"account/7", "account/3"}} {
		all.Go(func() {
			if err := transfer(ctx, l, pair); err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
	return nil
}

// transfer holds both names while it works. It would deadlock with the other transfer if each took its first name first.
func transfer(ctx context.Context, l locker.Locker, names []string) error {
	locks, err := locker.AcquireAll(ctx, l, names)
	if err != nil {
		return err
	}
	defer locks.Release(ctx)
	work := locks.Context() // ends with the first lock that is lost
	for _, lock := range locks {
		fmt.Println("holds", lock.Name())
	}
	return work.Err()
}
