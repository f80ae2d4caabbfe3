package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
)

// Two replicas must not migrate the same schema.
func ExampleDo() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	err = locker.Do(ctx, l, "migrate/schema", func(ctx context.Context, lock *locker.Lock) error {
		// ctx ends if the lock is lost.
		fmt.Println("migrating under", lock.Name())
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// migrating under migrate/schema
	// <nil>
}

// A job that is to run once, wherever: whoever does not get the lock goes on.
func ExampleLocker_tryAcquire() {
	ctx := context.Background()
	store := memory.NewStore()
	replica1, err := store.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer replica1.Close(ctx)
	replica2, err := store.Locker()
	if err != nil {
		log.Fatal(err)
	}
	defer replica2.Close(ctx)

	for i, l := range []locker.Locker{replica1, replica2} {
		lock, err := l.TryAcquire(ctx, "jobs/nightly")
		if errors.Is(err, locker.ErrNotAcquired) {
			fmt.Println("replica", i+1, "goes on")
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		defer lock.Release(ctx)
		fmt.Println("replica", i+1, "runs the job")
	}
	// Output:
	// replica 1 runs the job
	// replica 2 goes on
}

// A store that compares tokens is safe from a holder that was paused for longer
// than its TTL and does not know yet that it has lost the lock.
func ExampleLock_Token() {
	ctx := context.Background()
	store := memory.NewStore()
	l, err := store.Locker(locker.WithTTL(200 * time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	var fence int64 // kept beside the data that it protects
	write := func(token int64) error {
		if token < fence {
			return errors.New("a later holder has been here")
		}
		fence = token
		return nil
	}

	first, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	store.Destroy("orders/42") // as if its time had run out on the server
	second, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("second:", write(second.Token()))
	fmt.Println("first:", write(first.Token()))
	// Output:
	// second: <nil>
	// first: a later holder has been here
}

// The context of a lock says why it ended.
func ExampleLock_Context() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "report", locker.WithLease(100*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	<-lock.Context().Done()
	fmt.Println(errors.Is(context.Cause(lock.Context()), locker.ErrLost))
	fmt.Println(errors.Is(lock.Release(ctx), locker.ErrLost))
	// Output:
	// true
	// true
}
