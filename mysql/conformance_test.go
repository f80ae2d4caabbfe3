package mysql

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// TestConformance kills the server.
func TestConformance(t *testing.T) { conform(t, setup{}) }

// TestConformancePolling has waiters that cannot be woken.
func TestConformancePolling(t *testing.T) {
	conform(t, setup{poll: true, options: []locker.Option{WithPolling(sqlqueue.PollEvery)}})
}

// setup is one way to use MariaDB.
type setup struct {
	options []locker.Option
	poll    bool
}

// pool makes a pool of at most so many connections.
func pool(dsn string, most int) (*sql.DB, error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

// on makes a Locker on a pool.
func (s setup) on(db *sql.DB, opts []locker.Option) (locker.Locker, error) {
	return New(db, append(append([]locker.Option{}, s.options...), opts...)...)
}

// open makes a Locker with a pool of its own, which its Close closes.
func (s setup) open(dsn string, opts []locker.Option) (locker.Locker, error) {
	db, err := pool(dsn, 8)
	if err != nil {
		return nil, err
	}
	onClose := locker.WithOnClose(func() error { go db.Close(); return nil }) // may wait for a server that says nothing
	l, err := s.on(db, append([]locker.Option{onClose}, opts...))
	if err != nil {
		_ = db.Close()
	}
	return l, err
}

func conform(t *testing.T, s setup) {
	t.Parallel()
	b := conformance.Backend{
		New: func(testing.TB) *conformance.Harness { panic("not in a child") },
		Dial: func(_ context.Context, dsn string, opts ...locker.Option) (locker.Locker, error) {
			return s.open(dsn, opts)
		},
		Fair:       true,
		Fenced:     true,
		Shared:     true,
		Permits:    true,
		Downgrade:  true,
		Inspect:    true,
		Evict:      true,
		AtLeast:    true,
		Durable:    true,
		Variant:    s.poll,
		TTL:        time.Second,
		IdleRate:   0.2,
		RequireAll: true,
	}
	if s.poll {
		b.IdleRate = 1.2 * float64(time.Second/sqlqueue.PollEvery)
	}
	if !conformance.InChild() {
		server := servers.NewMariaDB(t, servers.MariaDBOptions{})
		guarded := servers.NewMariaDB(t, servers.MariaDBOptions{Password: "secret"})
		b.New = s.harness(t, server, guarded)
	}
	conformance.Run(t, b)
}

// harness returns what makes the harness of a case. Lockers without a link share a pool, as they may in one program.
func (s setup) harness(t testing.TB, server, guarded *servers.MariaDB) func(testing.TB) *conformance.Harness {
	admin := newPool(t, server.DSN())
	shared, err := pool(server.DSN(), 64)
	must(t, err)
	t.Cleanup(func() { _ = shared.Close() })
	var asked atomic.Int64 // by admin, of what Requests counts
	h := conformance.Harness{
		Address: server.DSN(),
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			return s.on(shared, opts)
		},
		Requests: func(ctx context.Context) (int64, error) {
			var name string
			var n int64
			err := admin.QueryRowContext(ctx, "show global status like 'Questions'").Scan(&name, &n)
			return n - asked.Add(1), err
		},
		Stop:  func(context.Context) error { return server.Kill() },
		Start: server.Restart,
		Destroy: func(ctx context.Context, name string) error {
			for {
				_, err := admin.ExecContext(ctx, "delete from locker.claim where name = ? and token is not null", []byte(name))
				if !among(conflicts, err) { // at the isolation level of this session there may be some
					return err
				}
			}
		},
		Leftovers: func(ctx context.Context, text string) (all []string, err error) {
			// What sweep removes, or settle passes over, is not left over.
			rows, err := admin.QueryContext(ctx, `
				select concat(name, ': ', hex(id), ' token ', coalesce(token, 'none')) from locker.claim
				where locate(?, name) > 0 and expires > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
				  and (listener is null or token is not null or is_used_lock(concat('locker.', listener)) is not null)`, []byte(text))
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var one string
				if err := rows.Scan(&one); err != nil {
					return nil, err
				}
				all = append(all, one)
			}
			return all, rows.Err()
		},
		Misconfigured: misconfigured(t, s, admin, server, guarded),
	}
	return func(t testing.TB) *conformance.Harness {
		one := h
		one.OpenLink = func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
			p, dsn := front(t, server)
			l, err := s.open(dsn, opts)
			link := conformance.Link{Freeze: p.Freeze, Mute: p.FreezeDown, Cut: func() { p.Refuse(); p.Cut() }, Heal: p.Heal}
			return l, link, err
		}
		return &one
	}
}

// misconfigured opens clients that cannot work, by what is wrong with them.
func misconfigured(t testing.TB, s setup, admin *sql.DB, server, guarded *servers.MariaDB) map[string]func(context.Context, ...locker.Option) (locker.Locker, error) {
	with := func(dsn string) func(context.Context, ...locker.Option) (locker.Locker, error) {
		return func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			return s.open(dsn, opts)
		}
	}
	if _, err := admin.ExecContext(within(t, patience), "create user if not exists nobody@'127.0.0.1'"); err != nil {
		t.Fatal(err)
	}
	return map[string]func(context.Context, ...locker.Option) (locker.Locker, error){
		"wrong password":   with(strings.Replace(guarded.DSN(), "secret", "wrong", 1)),
		"no such database": with(strings.Replace(server.DSN(), "/app", "/nowhere", 1)),
		"no permission":    with(strings.Replace(strings.Replace(server.DSN(), "root@", "nobody@", 1), "/app", "/", 1)),
		"no TLS":           with(server.DSN() + "?tls=true"),
	}
}
