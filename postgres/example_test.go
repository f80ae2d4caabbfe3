package postgres_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/postgres"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url())
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	l, err := postgres.New(pool)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close(ctx)

	lock, err := l.Acquire(ctx, "orders/42")
	if err != nil {
		log.Fatal(err)
	}
	_, err = l.TryAcquire(ctx, "orders/42")
	fmt.Println("again:", err)
	// The token is greater than that of every earlier holder: a row can keep it, and a late write be refused by
	// "update orders set state = 'paid', token = $1 where id = 42 and token <= $1".
	fmt.Println(lock.Name(), lock.Context().Err(), lock.Token() > 0)
	fmt.Println("released:", lock.Release(ctx) == nil)

	// Output:
	// again: locker: postgres: try "orders/42": not acquired
	// orders/42 <nil> true
	// released: true
}

// A pool that leads to PgBouncer, and the way past it for NOTIFY.
func ExampleWithListen() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url()) // of PgBouncer
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	direct, err := pgx.ParseConfig(url()) // of PostgreSQL itself
	if err != nil {
		log.Fatal(err)
	}
	l, err := postgres.New(pool, postgres.WithListen(direct), postgres.WithSchema("reports"), locker.WithTTL(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
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

// url is that of a server that is started for the example. You know yours.
func url() string {
	p, err := servers.StartPostgres(context.Background(), servers.PostgresOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return p.URL()
}
