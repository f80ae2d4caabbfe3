package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/redis"
)

func Example() {
	client := goredis.NewClient(&goredis.Options{Addr: address()})
	defer client.Close()
	l, err := redis.New(client)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	_, err = l.TryAcquire(ctx, "orders/42")
	fmt.Println("again:", err)
	// The context ends when the lock may be lost; the token is greater than that of
	// every earlier holder, so that a store can refuse one that is late.
	fmt.Println(lock.Name(), lock.Context().Err(), lock.Token() > 0)
	fmt.Println("released:", lock.Release(ctx) == nil)

	// Output:
	// again: locker: redis: try "orders/42": not acquired
	// orders/42 <nil> true
	// released: true
}

// A job that one process at a time is to do, wherever the master is just now: only the
// client differs.
func ExampleNew() {
	var client goredis.UniversalClient = goredis.NewUniversalClient(&goredis.UniversalOptions{
		Addrs: []string{address()}, // of a server, or of Sentinels or nodes of a Cluster
	})
	defer client.Close()
	l, err := redis.New(client, redis.WithPrefix("reports"), locker.WithTTL(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer l.Close(ctx)

	err = locker.Do(ctx, l, "monthly", func(ctx context.Context, lock *locker.Lock) error {
		fmt.Println("working on", lock.Name())
		return nil
	})
	fmt.Println(err)

	// Output:
	// working on monthly
	// <nil>
}

// address is that of a server that is started for the example. You know yours.
func address() string {
	r, err := servers.StartRedis(context.Background(), servers.RedisOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return r.Addr()
}
