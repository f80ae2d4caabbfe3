// Command readme is the program in the README: it does its work while it holds a name.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/seed80cd6120/locker"
	_ "github.com/seed80cd6120/locker/file" // for file://, which needs no server
)

func main() {
	ctx := context.Background()
	l, err := locker.Open(ctx, "file://")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)
	err = locker.Do(ctx, l, "job", func(ctx context.Context, lock *locker.Lock) error {
		fmt.Println("mine, with token", lock.Token())
		return ctx.Err() // do the work under ctx, which ends if the lock is lost
	})
	fmt.Println("done:", err)
}
