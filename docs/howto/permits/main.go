// Command permits calls a service, all replicas together no more than twice at a time and twice in half a second.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"sync"
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

	begun := time.Now()
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			err := locker.Do(ctx, l, "calls/example.org", call, locker.Permits(1, 2), locker.AtLeast(500*time.Millisecond))
			if err != nil {
				log.Print(i, ": ", err)
			}
		})
	}
	all.Wait()
	fmt.Println("six calls took a second or more:", time.Since(begun) >= time.Second)
	return nil
}

// call is what is limited.
func call(ctx context.Context, _ *locker.Lock) error {
	fmt.Println("calling")
	return ctx.Err()
}
