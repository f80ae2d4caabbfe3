package sqlrow_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/memory"
	"github.com/seed80cd6120/locker/recipes/sqlrow"
)

// The transaction begins with the fence, and reads after it.
func ExampleFence() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:example?mode=memory&cache=shared")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if _, err := db.Exec(sqlrow.Schema + `INSERT INTO orders (id, state) VALUES (42, 'new')`); err != nil {
		fmt.Println(err)
		return
	}
	l, err := memory.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close(ctx)

	pay := func(ctx context.Context, token int64) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := sqlrow.Fence(ctx, tx, "orders/42", token); err != nil {
			return err
		}
		var state string
		if err := tx.QueryRowContext(ctx, `SELECT state FROM orders WHERE id = 42`).Scan(&state); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET state = 'paid' WHERE id = 42`); err != nil {
			return err
		}
		fmt.Println(state, "-> paid")
		return tx.Commit()
	}
	for range 2 {
		err = locker.Do(ctx, l, "orders/42", func(ctx context.Context, lock *locker.Lock) error {
			return pay(ctx, lock.Token())
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("late:", errors.Is(pay(ctx, 1), sqlrow.ErrLate))
	// Output:
	// new -> paid
	// paid -> paid
	// late: true
}
