package etcd_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func Example() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:         []string{address()},
		DialKeepAliveTime: 10 * time.Second,
		Logger:            zap.NewNop(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	l, err := etcd.New(client)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	// The context ends when the lock may be lost; the token is greater than that of
	// every earlier holder, so that a store can refuse one that is late.
	fmt.Println(lock.Name(), lock.Context().Err(), lock.Token() > 0)
	// Output: orders/42 <nil> true
}

// A job that one process at a time is to do.
func ExampleNew() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address()}, Logger: zap.NewNop()})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	l, err := etcd.New(client, etcd.WithPrefix("reports/locks"), locker.WithTTL(5*time.Second))
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
