package ours

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/postgres"
)

// connections is how many a client of PostgreSQL may have, as with pgx's default on four processors.
const connections = 4

func postgresContender(durable bool) contender.Contender {
	c := contender.Contender{
		Name:   "postgres",
		Family: "postgres",
		Role:   contender.Ours,
		Setup:  contender.Setup{Service: contender.Postgres, Nodes: 1},
		Note:   "with its default options: unlogged tables",
		Traits: traits(time.Second),
	}
	var more []locker.Option
	if durable {
		c.Name, c.Note, c.Aside = "postgres-durable", "with logged tables", true
		more = append(more, postgres.Durable())
	}
	c.Open = func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
		pool, err := dial.Postgres(ctx, cfg.Addrs[0], connections)
		if err != nil {
			return nil, err
		}
		closePool := func() error { pool.Close(); return nil }
		l, err := postgres.New(pool, append(options(cfg), more...)...)
		if err != nil {
			return nil, errors.Join(err, closePool())
		}
		return client{l, closePool}, nil
	}
	return c
}
