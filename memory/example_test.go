package memory_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

func Example() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	_, err = l.TryAcquire(ctx, "orders/42")
	fmt.Println("free:", !errors.Is(err, locker.ErrNotAcquired))
	fmt.Println("released:", lock.Release(ctx))
	// Output:
	// free: false
	// released: <nil>
}

// What does my code do when its lock is taken over by another process?
func ExampleStore() {
	ctx := context.Background()
	store := memory.NewStore(locker.WithTTL(200 * time.Millisecond))
	mine, link, _ := store.Remote()
	other, _ := store.Locker()
	defer mine.Close(ctx)
	defer other.Close(ctx)

	lock, _ := mine.Acquire(ctx, "orders/42")
	link.Freeze() // no packet gets through any more
	successor, _ := other.Acquire(ctx, "orders/42")
	fmt.Println("lost:", errors.Is(context.Cause(lock.Context()), locker.ErrLost))
	fmt.Println("fenced off:", lock.Token() < successor.Token())
	link.Heal()
	// Output:
	// lost: true
	// fenced off: true
}
