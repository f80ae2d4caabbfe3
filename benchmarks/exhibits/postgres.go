package exhibits

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// postgresRecipe takes a name and returns how to give it back.
type postgresRecipe func(ctx context.Context, pool *pgxpool.Pool, name string) (release contender.Plain, err error)

func postgresExhibit(name, note string, take postgresRecipe) contender.Contender {
	return contender.Contender{
		Name:   name,
		Family: "naive",
		Setup:  contender.Postgres1,
		Note:   note,
		Traits: contender.Traits{Waits: true},
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			// Two of the recipes need a connection for each that holds or waits.
			pool, err := dial.Postgres(ctx, cfg.Addrs[0], 64)
			if err != nil {
				return contender.Client{}, err
			}
			_, err = pool.Exec(ctx, `do $$ begin
				perform pg_advisory_xact_lock(0);
				create table if not exists naive_row (name text primary key);
				create table if not exists naive_for_update (name text primary key);
			end $$`)
			return contender.Client{
				Acquire: contender.AskEvery(10*time.Millisecond, func(ctx context.Context, name string) (contender.Held, error) {
					return take(ctx, pool, name)
				}),
				// It ends the connections, also of those who hold something.
				Close: contender.Closing(func() { go pool.Close() }), // which waits for connections in use
			}, err
		},
	}
}

// insertRow takes the name by a row that nobody else can insert.
//
// What is wrong with it: the row of a holder that has died stays, and with it the lock, until somebody
// deletes it by hand. Whoever adds a time to it has a lease without renewal, on clocks of several machines.
// Nobody is woken: who finds the row asks again after a pause. There is no token.
func insertRow(ctx context.Context, pool *pgxpool.Pool, name string) (contender.Plain, error) {
	tag, err := pool.Exec(ctx, "insert into naive_row values ($1) on conflict do nothing", name)
	if err == nil && tag.RowsAffected() == 0 {
		err = contender.ErrTaken
	}
	return func(ctx context.Context) error {
		_, err := pool.Exec(ctx, "delete from naive_row where name = $1", name)
		return err
	}, err
}

// selectForUpdate takes the name by locking its row until the transaction ends.
//
// What is wrong with it: a connection and a transaction are open for as long as the lock is held, and for each
// that waits; a thousand of these and nobody else can connect, and VACUUM removes nothing that was deleted since
// the oldest of them began. When the connection is cut the next has the lock at once, while the one before works
// on: nothing tells it, and there is no token. When the network falls silent instead the server keeps the lock
// until TCP gives up, which takes hours by default. The rows stay.
func selectForUpdate(ctx context.Context, pool *pgxpool.Pool, name string) (contender.Plain, error) {
	if _, err := pool.Exec(ctx, "insert into naive_for_update values ($1) on conflict do nothing", name); err != nil {
		return nil, err
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "select from naive_for_update where name = $1 for update", name); err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return nil, err
	}
	return tx.Commit, nil
}

// advisoryLock takes the name by a lock of the session.
//
// What is wrong with it: the same as with selectForUpdate, but for the transaction. Behind a pooler in transaction
// mode the lock belongs to a connection that others use next: who gives it back may do so on another, and
// the lock stays. Names are 64 bits of a hash.
func advisoryLock(ctx context.Context, pool *pgxpool.Pool, name string) (contender.Plain, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "select pg_advisory_lock(hashtextextended($1, 1))", name); err != nil {
		conn.Release() // pgx has closed it
		return nil, err
	}
	return func(ctx context.Context) error {
		defer conn.Release()
		_, err := conn.Exec(ctx, "select pg_advisory_unlock(hashtextextended($1, 1))", name)
		return err
	}, nil
}
