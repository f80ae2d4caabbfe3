package lockmigrate_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/seed80cd6120/locker/adapters/lockmigrate"
	"github.com/seed80cd6120/locker/memory"
)

func Example() {
	db, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(context.Background())

	files, err := iofs.New(fstest.MapFS{"1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER PRIMARY KEY)")}}, ".")
	if err != nil {
		fmt.Println(err)
		return
	}
	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	up := func() error {
		m, err := migrate.NewWithInstance("iofs", files, "sqlite", lockmigrate.New(driver, l, "schema", 14*time.Minute))
		if err != nil {
			return err
		}
		defer m.Close()
		m.LockTimeout = 15 * time.Minute
		fmt.Println(m.Up())
		return m.Up()
	}
	fmt.Println(up())
	// Output:
	// <nil>
	// no change
}
