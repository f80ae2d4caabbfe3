//go:build unix

package file_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/file"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "locks") // all processes give the same
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := file.New(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)
	other, err := file.New(dir) // as in another process
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close(ctx)

	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	_, err = other.TryAcquire(ctx, "orders/42")
	fmt.Println("taken:", errors.Is(err, locker.ErrNotAcquired))
	fmt.Println("released:", lock.Release(ctx))
	// Output:
	// taken: true
	// released: <nil>
}

// A directory of the application's own, which all its processes give.
func ExampleNew() {
	l, err := file.New("/run/myapp/locks")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(context.Background())
}
