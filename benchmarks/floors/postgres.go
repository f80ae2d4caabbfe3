package floors

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

type postgresFloor struct{ pool *pgxpool.Pool }

func openPostgres(ctx context.Context, cfg contender.Config) (contender.Client, error) {
	pool, err := dial.Postgres(ctx, cfg.Addrs[0], 4)
	if err != nil {
		return nil, err
	}
	_, err = pool.Exec(ctx, "create unlogged table if not exists floor (name text primary key)")
	return postgresFloor{pool}, err
}

func (f postgresFloor) Acquire(ctx context.Context, name string) (contender.Held, error) {
	tag, err := f.pool.Exec(ctx, "insert into floor values ($1) on conflict do nothing", name)
	if err != nil {
		return nil, err
	}
	if tag.RowsAffected() == 0 {
		return nil, contender.ErrTaken
	}
	return held(func(ctx context.Context) error {
		_, err := f.pool.Exec(ctx, "delete from floor where name = $1", name)
		return err
	}), nil
}

func (f postgresFloor) Close() error {
	f.pool.Close()
	return nil
}
