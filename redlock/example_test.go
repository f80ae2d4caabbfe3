package redlock_test

import (
	"context"
	"fmt"
	"log"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/redlock"
)

func Example() {
	ctx := context.Background()
	nodes, err := servers.StartRedisSet(ctx, 5, servers.RedisOptions{}) // yours are on five machines
	if err != nil {
		log.Fatal(err)
	}
	var clients []goredis.UniversalClient
	for _, n := range nodes {
		client := goredis.NewClient(&goredis.Options{Addr: n.Addr()})
		defer client.Close()
		defer n.Close()
		clients = append(clients, client)
	}

	l, err := redlock.New(clients)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holding", lock.Name(), "with a token:", lock.Token() > 0)

	// Two of the five may die.
	for _, n := range nodes[:2] {
		if err := n.Kill(); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("release:", lock.Release(ctx))

	// Output:
	// holding orders/42 with a token: true
	// release: <nil>
}
