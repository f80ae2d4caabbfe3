package rivals

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// The module of cirello.io/pglock was not to be had when this was written. This is a program of ours that sends what
// its documentation and its source describe: serializable transactions that begin, write a new version number
// into the row of the name if it has none or the one seen a lease ago, read the row for update, and commit; and to
// give back begin, remove the number, commit. Who finds the name taken sleeps a whole lease. A number is renewed
// in the background. The library prepares each statement besides, as database/sql with lib/pq does; here pgx
// prepares it once for each connection, which is in its favour.
var pglockContender = contender.Contender{
	Family: "pglock",
	Setup:  contender.Postgres1,
	Note:   "the statements of cirello.io/pglock, sent by a program of ours; the heartbeat three times in a lease",
	Traits: contender.Traits{Waits: true, Renews: true, MinTTL: time.Second},
	Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
		pool, err := dial.Postgres(ctx, cfg.Addrs[0], dial.Connections)
		if err != nil {
			return contender.Client{}, err
		}
		_, err = pool.Exec(ctx, `do $$ begin
			perform pg_advisory_xact_lock(1);
			create table if not exists locks
				(name varchar(255) primary key, record_version_number varchar(255), data bytea);
		end $$`)
		c := &pglockClient{pool, cfg.TTL}
		return contender.Client{Acquire: c.acquire, Try: c.try, Close: contender.Closing(pool.Close)}, err
	},
}

type pglockClient struct {
	pool  *pgxpool.Pool
	lease time.Duration
}

type pglockHeld struct {
	c       *pglockClient
	name    string
	version chan string // holds the number while nobody changes it
}

var errNotHeld = errors.New("pglock: lock is already released")

// serializable runs a transaction until it does not fail for others.
func (c *pglockClient) serializable(ctx context.Context, do func(tx pgx.Tx) error) error {
	for {
		err := pgx.BeginTxFunc(ctx, c.pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, do)
		var answer *pgconn.PgError
		if !errors.As(err, &answer) || answer.Code != "40001" {
			return err
		}
	}
}

func (c *pglockClient) acquire(ctx context.Context, name string) (contender.Held, error) {
	seen := ""
	try := func(ctx context.Context, name string) (contender.Held, error) { return c.take(ctx, name, &seen) }
	return contender.AskEvery(c.lease, try)(ctx, name)
}

func (c *pglockClient) try(ctx context.Context, name string) (contender.Held, error) {
	return c.take(ctx, name, new(string))
}

// take takes the name if it has no number, or still the one that was seen; it notes that which it finds.
func (c *pglockClient) take(ctx context.Context, name string, seen *string) (contender.Held, error) {
	version := rand.Text()
	err := c.serializable(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `insert into locks (name, record_version_number, data) values ($1, $2, '')
			on conflict (name) do update set record_version_number = $2
			where locks.record_version_number is null or locks.record_version_number = $3`, name, version, *seen); err != nil {
			return err
		}
		var found string
		if err := tx.QueryRow(ctx, "select record_version_number from locks where name = $1 for update", name).Scan(&found); err != nil {
			return err
		}
		if found != version {
			*seen = found
			return contender.ErrTaken
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	h := &pglockHeld{c: c, name: name, version: make(chan string, 1)}
	h.version <- version
	life, stop := context.WithCancel(context.Background())
	go h.renew(life)
	return contender.Plain(func(ctx context.Context) error {
		defer stop()
		return h.replace(ctx, nil)
	}), nil
}

// replace writes another number, or none, in the place of the holder's.
func (h *pglockHeld) replace(ctx context.Context, next *string) error {
	version := <-h.version
	err := h.c.serializable(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "update locks set record_version_number = $3 where name = $1 and record_version_number = $2", h.name, version, next)
		if err == nil && tag.RowsAffected() == 0 {
			err = errNotHeld
		}
		return err
	})
	if err == nil && next != nil {
		version = *next
	}
	h.version <- version
	return err
}

// renew writes another number three times in a lease, until life ends or somebody else has the name.
func (h *pglockHeld) renew(life context.Context) {
	for contender.Pause(life, h.c.lease/3) == nil {
		next := rand.Text()
		if h.replace(life, &next) != nil {
			return
		}
	}
}
