package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/proxy"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

// TestConformance stops the server in order: unlogged tables survive that. What a crash does to them is in
// crash_test.go.
func TestConformance(t *testing.T) { conform(t, setup{}) }

// TestConformanceDurable has logged tables, and kills the server.
func TestConformanceDurable(t *testing.T) {
	conform(t, setup{durable: true, options: []locker.Option{Durable()}})
}

// TestConformancePgBouncer has the statements go through PgBouncer and LISTEN past it.
func TestConformancePgBouncer(t *testing.T) { conform(t, setup{bouncer: true, listen: true}) }

// TestConformancePolling has everything go through PgBouncer, where LISTEN does not work.
func TestConformancePolling(t *testing.T) { conform(t, setup{bouncer: true}) }

// setup is one way to use PostgreSQL.
type setup struct {
	options []locker.Option
	durable bool
	bouncer bool // statements go through PgBouncer
	listen  bool // LISTEN goes past it
}

// address is what a client in another process is given: the way for statements and that for LISTEN.
type address struct {
	statements, listen string
	pooler             *servers.PgBouncer // in the process that started it
}

// pool makes a pool of at most so many connections.
func (a address) pool(ctx context.Context, most int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(a.statements)
	if err != nil {
		return nil, err
	}
	config.MaxConns = most
	return pgxpool.NewWithConfig(ctx, config)
}

// on makes a Locker on a pool.
func (s setup) on(pool *pgxpool.Pool, a address, opts []locker.Option) (locker.Locker, error) {
	all := append([]locker.Option{}, s.options...)
	if s.listen {
		direct, err := pgx.ParseConfig(a.listen)
		if err != nil {
			return nil, err
		}
		all = append(all, WithListen(direct))
	}
	return New(pool, append(all, opts...)...)
}

// open makes a Locker with a pool of its own, which its Close closes in the background; closed waits for that.
func (s setup) open(ctx context.Context, a address, opts []locker.Option) (l locker.Locker, closed func(), err error) {
	pool, err := a.pool(ctx, 8)
	if err != nil {
		return nil, nil, err
	}
	onClose := locker.WithOnClose(func() error { go pool.Close(); return nil }) // may wait for a server that says nothing
	l, err = s.on(pool, a, append([]locker.Option{onClose}, opts...))
	if err != nil {
		pool.Close()
	}
	return l, pool.Close, err
}

func conform(t *testing.T, s setup) {
	t.Parallel()
	b := conformance.Backend{
		New: func(testing.TB) *conformance.Harness { panic("not in a child") },
		Dial: func(ctx context.Context, given string, opts ...locker.Option) (locker.Locker, error) {
			statements, listen, _ := strings.Cut(given, " ")
			l, _, err := s.open(ctx, address{statements: statements, listen: listen}, opts)
			return l, err
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
		Variant:    s.bouncer || s.durable,
		TTL:        time.Second,
		IdleRate:   0.2,
		RequireAll: true,
	}
	if s.bouncer && !s.listen {
		b.IdleRate = 1.2 * float64(time.Second/sqlqueue.PollEvery)
	}
	if !conformance.InChild() {
		server := servers.NewPostgres(t, servers.PostgresOptions{})
		guarded := servers.NewPostgres(t, servers.PostgresOptions{Password: "secret"})
		direct := server.URL()
		a := address{statements: direct, listen: direct}
		if s.bouncer {
			a.pooler = servers.NewPgBouncer(t, server)
			a.statements = a.pooler.URL()
		}
		b.New = s.harness(t, server, guarded, a)
	}
	conformance.Run(t, b)
}

// schema is where the tables are.
func (s setup) schema() string {
	if s.durable {
		return DefaultDurableSchema
	}
	return DefaultSchema
}

// harness returns what makes the harness of a case. Lockers without a link share a pool, as they may in one program: to
// connect takes the server more than most cases do.
func (s setup) harness(t testing.TB, server, guarded *servers.Postgres, a address) func(testing.TB) *conformance.Harness {
	admin := newPool(t, server.URL())
	wrong := misconfigured(t, s, admin, server, guarded)
	pool, err := a.pool(t.Context(), 64)
	must(t, err)
	t.Cleanup(pool.Close)
	h := conformance.Harness{
		Address: a.statements + " " + a.listen,
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			return s.on(pool, a, opts)
		},
		Requests: func(ctx context.Context) (n int64, err error) {
			if _, err = admin.Exec(ctx, "create extension if not exists pg_stat_statements"); err == nil {
				err = admin.QueryRow(ctx, "select coalesce(sum(calls), 0) from pg_stat_statements where query like 'select%locker%' or query like '%listen%'").Scan(&n)
			}
			return n, err
		},
		Stop: func(context.Context) error {
			if s.durable {
				return server.Kill()
			}
			return server.Stop()
		},
		Start: func(ctx context.Context) error {
			err := server.Restart(ctx)
			pool.Reset() // a Locker that is opened afterwards has connections of its own time, as with a pool of its own
			for err == nil && s.bouncer && ctx.Err() == nil && !answers(ctx, a.statements) {
				time.Sleep(10 * time.Millisecond) // PgBouncer tries to log in once a second
			}
			if err == nil && ctx.Err() != nil {
				err = fmt.Errorf("PgBouncer (process %d) does not answer; its log ends:\n%s", a.pooler.PID(), a.pooler.Log())
			}
			return err
		},
		Destroy: func(ctx context.Context, name string) error {
			_, err := admin.Exec(ctx, "delete from "+s.schema()+".claim where name = $1 and token is not null", []byte(name))
			return err
		},
		Leftovers: func(ctx context.Context, text string) ([]string, error) {
			rows, err := admin.Query(ctx, `
				select format('%s: %s token %s until %s', encode(name, 'escape'), id, token, until) from `+s.schema()+`.claim
				where position($1::bytea in name) > 0
				  and until > clock_timestamp() -- what sweep removes
				  and (listener is null or listener in (select classid::bigint << 32 | objid::bigint from pg_locks where locktype = 'advisory'))`,
				[]byte(text))
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[string])
		},
		Misconfigured: wrong,
	}
	return func(t testing.TB) *conformance.Harness {
		one := h
		one.OpenLink = func(ctx context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
			_, rest, _ := strings.Cut(a.statements, "@")
			addr, _, _ := strings.Cut(rest, "/")
			first, statements := front(t, addr)
			second, listen := front(t, server.Addr())
			l, closed, err := s.open(ctx, address{statements: statements, listen: listen}, opts)
			if err == nil {
				t.Cleanup(closed) // before the proxies: PgBouncer 1.18 ends when clients are cut off while they cancel
			}
			s := proxy.Set{first, second}
			return l, conformance.Link{Freeze: s.Freeze, Mute: s.FreezeDown, Cut: s.CutOff, Heal: s.Heal}, err
		}
		return &one
	}
}

// answers reports whether a server can be asked by way of url.
func answers(ctx context.Context, url string) bool {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, "select 1").ReadAll()
	return err == nil
}

// misconfigured opens clients that cannot work, by what is wrong with them.
func misconfigured(t testing.TB, s setup, admin *pgxpool.Pool, server, guarded *servers.Postgres) map[string]func(context.Context, ...locker.Option) (locker.Locker, error) {
	with := func(url string) func(context.Context, ...locker.Option) (locker.Locker, error) {
		return func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
			l, _, err := s.open(ctx, address{statements: url, listen: url}, opts)
			return l, err
		}
	}
	if _, err := admin.Exec(within(t, patience), `do $$ begin create role nobody login; exception when duplicate_object or unique_violation then end $$`); err != nil {
		t.Fatal(err)
	}
	return map[string]func(context.Context, ...locker.Option) (locker.Locker, error){
		"wrong password":   with(strings.Replace(guarded.URL(), "secret", "wrong", 1)),
		"no such database": with(strings.Replace(server.URL(), "/postgres?", "/nowhere?", 1)),
		"no permission":    with(strings.Replace(server.URL(), "postgres@", "nobody@", 1)),
		"no TLS":           with(strings.Replace(server.URL(), "sslmode=disable", "sslmode=require", 1)),
	}
}
