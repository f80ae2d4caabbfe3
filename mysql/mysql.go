// Package mysql is the locker backend for MySQL 8.0 and MariaDB 10.6, or later.
//
//	db, err := sql.Open("mysql", "app@tcp(localhost)/app")
//	l, err := mysql.New(db)
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// It is tested with the MariaDB 10.11 of Debian. It keeps to SQL that MySQL 8.0 has, too, but is not tested there.
//
// # What is on the server
//
// A schema (in MySQL the same as a database), "locker", with three tables and some procedures. It is all in
// schema.sql beside this file, which is run at the first use, if it has not been and the user may create schemas
// and procedures. Where the user may not, somebody else runs it by hand; how is said at its beginning. From then
// on the right to execute the procedures is all that a user needs. Lockers with different schemas do not know of
// each other.
//
// # How it works
//
// To take a free name is one statement outside of any transaction, to release it another. Whoever finds the name
// taken joins its queue in the same statement and sleeps; the statement that releases the name makes holders of
// as many from the head of the queue as fit, and wakes their processes.
//
// For that a Locker keeps one connection asleep on the server, as soon as something has waited, in a statement that
// ends after twenty seconds or by KILL QUERY, and answers what is new. The connection is found by a named lock
// (GET_LOCK) that it has: it shows that the Locker lives, and where to wake it; it does not show who holds what. A waiter whose
// connection is gone is passed over. To sleep is to wait for another named lock, which an idle connection of one of the
// Lockers has; when that is gone another takes its place. A waiter looks by itself, too, when the time of the first holder should be
// over, when its connection was interrupted, and every 20 to 25 seconds.
//
// Inside, the procedures lock one of 512 rows, by a checksum of the name, until they end, which is at once, so that
// they see a queue one after the other. Time is the server's, UTC_TIMESTAMP(6). No connection or transaction is
// held while a lock is held or waited for.
//
// Every request that takes something says until when, by the server's time, it may have an effect. So one that the
// network has kept for long does nothing, and what was given up leaves a tombstone until then.
//
// A token is drawn after the name is the claim's: it is greater than all before it, and no less than the time in
// microseconds, times 1,024. So tokens go on rising after a failover to a replica that was behind, and after the
// restore of a backup, as long as the servers' times differ by less than that takes.
//
// # What a crash does
//
// The tables are of InnoDB: locks and queues survive a crash of the server as far as its transactions do, which is
// wholly with innodb_flush_log_at_trx_commit=1, the default, and, unless the machine fails, with 2. A crash that
// loses transactions, and a failover to a replica that had not seen a lock, may lead to two holders of one name;
// their tokens differ and are in order. After a failover to a server whose clock is ahead, or when the server's clock
// is set forward, a name may be granted that much before its holder knows that it is lost. All Lockers have to speak
// to the same server: one node of a Galera or Group Replication cluster, because named locks and locks of rows are
// known to one node only.
//
// # The pool
//
// The *sql.DB is the caller's: it is neither configured nor closed here. Each Locker with waiters keeps one connection, and
// one Locker of those on a server keeps another. So the pool needs two connections more than there are Lockers. If
// [WithListen] names another pool for those that are kept, that one needs one more than there are Lockers. A readTimeout in the
// data source name has to be longer than 25 seconds there, and the server's wait_timeout than 40; else connections are made
// anew each time. Where the pool has too few connections, and where the server does not permit the procedures to wake a
// waiter (see schema.sql), waiters ask together, in one statement every quarter of a second.
//
// A statement that has no answer within five seconds is given up, and its connection with it. Where all connections
// of the pool are busy with other things a lock may be lost, because it cannot be renewed: a pool of its own is
// safer. The binary log, if there is one, has to be by rows or mixed, as it is by default: statements run at the
// isolation level READ COMMITTED.
package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// DefaultSchema is where everything is stored unless WithSchema says otherwise.
const DefaultSchema = "locker"

type settings struct {
	schema string
	listen *sql.DB
	poll   time.Duration // zero: listen
}

// WithSchema sets the schema in which everything is stored. Its name has 1 to 64 characters and no zero byte.
func WithSchema(schema string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		s.schema = schema
		if n := utf8.RuneCountInString(schema); n < 1 || n > 64 || strings.Contains(schema, "\x00") {
			return fmt.Errorf("a schema of %d characters, want 1 to 64 and no zero byte", n)
		}
		return nil
	})
}

// WithListen sets the pool from which the connections are taken that a Locker with waiters keeps, if that is not the one
// for statements. It has to lead to the same server.
func WithListen(db *sql.DB) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if db == nil {
			return errors.New("nil db")
		}
		s.listen = db
		return nil
	})
}

// WithPolling has the waiters of a Locker ask, together, every so often, and keep no connection. Every is
// at most half a second.
func WithPolling(every time.Duration) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		s.poll = every
		return sqlqueue.CheckPolling(every)
	})
}

// New returns a Locker on the server that db is connected to, by the driver github.com/go-sql-driver/mysql. It does
// no I/O. db must stay open until the Locker has been closed.
func New(db *sql.DB, opts ...locker.Option) (locker.Locker, error) {
	var s settings
	cfg, err := locker.NewConfig("mysql", &s, opts...)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, locker.InvalidOption("mysql", errors.New("nil db"))
	}
	return locker.New(newBackend(db, cfg, s), cfg)
}

// backend is the driver: a queue in the tables of a server.
type backend struct {
	*sqlqueue.Queue
	server *server
}

func newBackend(db *sql.DB, cfg *locker.Config, s settings) *backend {
	if s.schema == "" {
		s.schema = DefaultSchema
	}
	if s.listen == nil {
		s.listen = db
		if most := db.Stats().MaxOpenConnections; 0 < most && most < 3 && s.poll == 0 { // one to listen, the keeper, one for statements
			s.poll = sqlqueue.PollEvery
		}
	}
	server := &server{db: db, listen: s.listen, schema: "`" + strings.ReplaceAll(s.schema, "`", "``") + "`"}
	return &backend{sqlqueue.New(server, cfg.Clock, s.poll), server}
}

// Traits implements [driver.Driver]. Prompt stays false: the dialer of a data source name may be anybody's.
func (b *backend) Traits() driver.Traits {
	return driver.Traits{
		Backend: "mysql", Fair: true, Fenced: true, Shared: true, Permits: true,
		Inspect: true, Evict: true, Downgrade: true, Linger: true, Check: sqlqueue.CheckEvery,
	}
}
