// Package postgres is the locker backend for PostgreSQL 14 or later.
//
//	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
//	l, err := postgres.New(pool)
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// # What is on the server
//
// A schema, "locker", with a table of claims, some small ones, and functions. It is all in schema.sql beside
// this file, which is run at the first use, if it has not been and the user may create schemas. Where the user
// may not, somebody else runs it by hand; how is said at its beginning. From then on usage of the schema is all
// that a user needs. Lockers with different schemas do not know of each other. A lock is a row that is inserted and
// deleted: the tables have room for those of the time between two rounds of autovacuum, by default a minute (10 MB after
// a million at 1,000 a second), and do not grow beyond it.
//
// # How it works
//
// To take a free name is one statement outside of any transaction, to release it another. Whoever finds the name
// taken joins its queue in the same statement and sleeps; the statement that releases the name makes holders
// of as many from the head of the queue as fit, and tells each by NOTIFY. For that a Locker listens on a
// connection of its own as soon as something has waited. A waiter whose connection is gone is passed over. A
// waiter looks by itself, too, when the time of the first holder should be over, when its connection was
// interrupted, and every 20 to 25 seconds.
//
// Inside, the functions take an advisory lock of the name until they end, which is at once, so that they see the
// queue one after the other. Time is the server's, clock_timestamp(). No connection or transaction is held while
// a lock is held or waited for.
//
// Every request that takes something says until when, by the server's time, it may have an effect. So one
// that the network has kept for long does nothing, and what was given up leaves a tombstone until then.
//
// A token is drawn from a sequence after the name is the claim's. At the first use after each start of a server, and
// after a dump was restored, the sequence is set to the time at least, so that tokens go on rising after that and
// after a failover to a standby that was behind, as long as the servers' times differ by less than it takes.
//
// # What a crash does
//
// The tables are unlogged: nothing is written to the disk for a lock. When the server crashes, or a
// standby takes its place, they come back empty, and so is a row that says that they were not. Then nothing is
// granted for as long as the longest TTL lasts that was in use in the last hour, which a logged table remembers, on a standby as far as it
// has been told.
// Holders learn from their next renewal that they hold nothing any more. What [locker.AtLeast] kept is free
// after that time. When a server is restarted in order, all stays as it was.
//
// With [Durable] the tables are logged, and locks and queues survive a crash. A failover to a standby that had
// not seen a lock may then lead to two holders of one name; their tokens differ and are in order. Use
// synchronous replication, and do not switch synchronous_commit off. After a failover to a server whose clock is
// ahead, or when the server's clock is set forward, a name may be granted that much before its holder knows that it
// is lost.
//
// # Poolers
//
// Statements work through PgBouncer in transaction mode, whatever the DefaultQueryExecMode of the pool: they
// are sent by the simple protocol. LISTEN does not: give [WithListen] a way that leads past the pooler. Without it
// the waiters of a Locker ask together, in one statement every quarter of a second. PgBouncer 1.18 to 1.20 may crash
// when the server answers while a statement is being cancelled: let a service manager start it again.
//
// # The pool
//
// The pool is the caller's: it is neither configured nor closed here. One connection more is open once something
// has waited. A statement that has no answer within five seconds is given up, and its connection with it, as pgx
// does. A DialFunc of the pool's has to make connections that obey deadlines: over others, such as those of an SSH
// client, calls and Close may last until the server answers. Where all connections of the pool are busy with other
// things a lock may be lost, because it cannot be renewed: a pool of its own is safer. The isolation level of
// statements has to be "read committed", which it is unless default_transaction_isolation says otherwise,
// standard_conforming_strings on, as it is by default, and client_encoding UTF8, as it is by default where the database
// has that encoding. Other settings are refused.
package postgres

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

const (
	// DefaultSchema is where everything is stored unless WithSchema says otherwise.
	DefaultSchema = "locker"
	// DefaultDurableSchema takes its place with Durable.
	DefaultDurableSchema = "locker_durable"
)

type settings struct {
	schema  string
	durable bool
	listen  *pgx.ConnConfig
	poll    time.Duration // zero: listen
}

// WithSchema sets the schema in which everything is stored. A schema has 1 to 63 bytes and no zero byte.
func WithSchema(schema string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		s.schema = schema
		if schema == "" || len(schema) > 63 || strings.Contains(schema, "\x00") {
			return fmt.Errorf("a schema of %d bytes, want 1 to 63 and no zero byte", len(schema))
		}
		return nil
	})
}

// Durable keeps locks and queues over a crash of the server, at the price of a write to the disk for each
// request. A schema is either durable or not, from when it is created.
func Durable() locker.Option {
	return locker.BackendOption(func(s *settings) error { s.durable = true; return nil })
}

// WithListen sets how to connect for LISTEN, if that is not as the pool does. Needed where the pool leads to
// a pooler such as PgBouncer.
func WithListen(config *pgx.ConnConfig) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if config == nil {
			return errors.New("nil config")
		}
		s.listen = config
		return nil
	})
}

// WithPolling has the waiters of a Locker ask, together, every so often, and not listen. Every is at
// most half a second.
func WithPolling(every time.Duration) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		s.poll = every
		return sqlqueue.CheckPolling(every)
	})
}

// New returns a Locker on the database that pool is connected to. It does no I/O. The pool must stay open
// until the Locker has been closed.
func New(pool *pgxpool.Pool, opts ...locker.Option) (locker.Locker, error) {
	var s settings
	cfg, err := locker.NewConfig("postgres", &s, opts...)
	if err != nil {
		return nil, err
	}
	if pool == nil {
		return nil, locker.InvalidOption("postgres", errors.New("nil pool"))
	}
	return locker.New(newBackend(pool, cfg, s), cfg)
}

// backend is the driver: a queue in the tables of a server.
type backend struct {
	*sqlqueue.Queue
	server *server
	prompt bool // pgx returns when a context ends; what the caller has it do may not
}

func newBackend(pool *pgxpool.Pool, cfg *locker.Config, s settings) *backend {
	if s.schema == "" {
		s.schema = DefaultSchema
		if s.durable {
			s.schema = DefaultDurableSchema
		}
	}
	hooks := pool.Config()
	//lint:ignore SA1019 it is called all the same
	prompt := hooks.BeforeAcquire == nil && hooks.PrepareConn == nil && hooks.ShouldPing == nil && hooks.ConnConfig.Tracer == nil &&
		endsAtOnce(&hooks.ConnConfig.Config)
	server := &server{pool: pool, settings: s, statements: newStatements(s.schema)}
	return &backend{sqlqueue.New(server, cfg.Clock, s.poll), server, prompt}
}

// endsAtOnce reports whether connections do what those of pgx do by themselves when a context ends: give up at once. Others may ask
// the server to cancel, and wait for that.
func endsAtOnce(config *pgconn.Config) bool {
	plain := plainConfig()
	code := func(build func(*pgconn.PgConn) ctxwatch.Handler) uintptr { return reflect.ValueOf(build).Pointer() }
	return plain != nil && code(plain.BuildContextWatcherHandler) == code(config.BuildContextWatcherHandler)
}

// plainConfig returns a configuration in which nothing was changed, nil if there is none in this environment.
var plainConfig = sync.OnceValue(func() *pgconn.Config {
	config, _ := pgconn.ParseConfig("host=/ sslmode=disable")
	return config
})

// Traits implements [driver.Driver].
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "postgres", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true, Prompt: b.prompt, Check: sqlqueue.CheckEvery,
	}
}
