package lockgoose_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	"github.com/seed80cd6120/locker/adapters/lockgoose"
	"github.com/seed80cd6120/locker/memory"
)

func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection to :memory: has a database of its own
	l, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(ctx)

	migrations := fstest.MapFS{"1_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER PRIMARY KEY);")}}
	up := func() error {
		provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithLocker(lockgoose.New(l, "schema")))
		if err != nil {
			return err
		}
		results, err := provider.Up(ctx)
		fmt.Println(len(results), "migrations")
		return err
	}
	fmt.Println(up())
	fmt.Println(up())
	// Output:
	// 1 migrations
	// <nil>
	// 0 migrations
	// <nil>
}
