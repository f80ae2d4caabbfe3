package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/mysql"
)

func Example() {
	ctx := context.Background()
	db, err := sql.Open("mysql", dsn())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	l, err := mysql.New(db)
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
	// "update orders set state = 'paid', token = ? where id = 42 and token <= ?".
	fmt.Println(lock.Name(), lock.Context().Err(), lock.Token() > 0)
	fmt.Println("released:", lock.Release(ctx) == nil)

	// Output:
	// again: locker: mysql: try "orders/42": not acquired
	// orders/42 <nil> true
	// released: true
}

// A pool of its own for the connections on which waiters are woken, so that the other can have one connection, or a
// readTimeout.
func ExampleWithListen() {
	ctx := context.Background()
	db, err := sql.Open("mysql", dsn()+"?readTimeout=3s")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	listen, err := sql.Open("mysql", dsn())
	if err != nil {
		log.Fatal(err)
	}
	defer listen.Close()
	l, err := mysql.New(db, mysql.WithListen(listen), mysql.WithSchema("reports"), locker.WithTTL(5*time.Second))
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

// dsn is the data source name of a server that is started for the example. You know yours.
func dsn() string {
	m, err := servers.StartMariaDB(context.Background(), servers.MariaDBOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return m.DSN()
}
