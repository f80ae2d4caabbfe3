package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/look"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

func TestOptions(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://nowhere.invalid/x")
	must(t, err)
	defer pool.Close()
	for name, opt := range map[string]locker.Option{
		"empty schema":  WithSchema(""),
		"long schema":   WithSchema(strings.Repeat("x", 64)),
		"zero byte":     WithSchema("a\x00b"),
		"nil listen":    WithListen(nil),
		"zero polling":  WithPolling(0),
		"rare polling":  WithPolling(locker.DefaultTTL),
		"another's TTL": locker.WithTTL(-1),
	} {
		if _, err := New(pool, opt); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("nil pool: %v", err)
	}
}

// counted returns what the server was sent about locks so far, by statement.
func counted(t testing.TB, admin *pgxpool.Pool) map[string]int64 {
	t.Helper()
	if _, err := admin.Exec(within(t, patience), "create extension if not exists pg_stat_statements"); err != nil {
		t.Fatal(err)
	}
	rows, err := admin.Query(within(t, patience), `
		select coalesce(substring(query from '\.(\w+)\('), 'other'), sum(calls) from pg_stat_statements
		where query not like '%pg_stat_statements%' group by 1`)
	must(t, err)
	all := make(map[string]int64)
	var name string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { all[name] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// A free lock costs two statements, and a queue of waiters two for each.
func TestStatementsPerLock(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	l := openURL(t, server.URL())
	release(t, acquire(t, l, "warm"))
	if n := locktest.Requests(100, func() int64 {
		before := counted(t, admin)
		for range 50 {
			release(t, acquire(t, l, "x"))
		}
		after := counted(t, admin)
		return after["acquire"] - before["acquire"] + after["release"] - before["release"]
	}); n < 90 || n > 100 { // a release that was given up late may be missing
		t.Errorf("50 pairs took %d acquire and release", n)
	}

	// Ten wait; each is granted by the release of the one before and told by NOTIFY.
	waiters := listening(t, server, 10)
	most := int64(11 + 10 + 5) // one that was told late may ask
	if n := locktest.Requests(most, func() int64 {
		held := acquire(t, l, "x", locker.WithLease(time.Hour))
		before := counted(t, admin)
		var all sync.WaitGroup
		for i, w := range waiters {
			all.Go(func() { release(t, acquire(t, w, "x")) })
			eventually.Is(t, "it is in the queue", func() bool { return waiting(t, admin) == i+1 })
		}
		release(t, held)
		all.Wait()
		after := counted(t, admin)
		return after["acquire"] - before["acquire"] + after["release"] - before["release"]
	}); n < 11 || n > most {
		t.Errorf("10 that waited took %d acquire and release", n)
	}
}

// waiting returns how many wait and are told by NOTIFY.
func waiting(t testing.TB, admin *pgxpool.Pool) int {
	t.Helper()
	return ask[int](t, admin, "select count(*) from locker.claim where token is null and listener is not null")
}

// listening opens Lockers that have begun to listen.
func listening(t testing.TB, server *servers.Postgres, n int) (all []locker.Locker) {
	t.Helper()
	for i := range n {
		l := openURL(t, server.URL(), locker.WithTTL(time.Hour))
		held := acquire(t, openURL(t, server.URL()), fmt.Sprint("warm ", i))
		done := make(chan struct{})
		go func() {
			defer close(done)
			release(t, acquire(t, l, fmt.Sprint("warm ", i)))
		}()
		admin := newPool(t, server.URL())
		eventually.Is(t, "it listens", func() bool { return waiting(t, admin) == 1 })
		release(t, held)
		<-done
		all = append(all, l)
	}
	return all
}

// Those that wait, and have nothing to wait for soon, send nothing.
func TestIdleWaitersSendNothing(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	waiters := listening(t, server, 10)
	held := acquire(t, openURL(t, server.URL()), "x", locker.WithLease(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	since := time.Now()
	for _, w := range waiters {
		all.Go(func() { _, _ = w.Acquire(ctx, "x") })
	}
	eventually.Is(t, "all wait", func() bool { return waiting(t, admin) == len(waiters) })
	before := counted(t, admin)["acquire"]
	time.Sleep(3 * time.Second) // in which nothing may happen
	if sent := counted(t, admin)["acquire"] - before; sent != 0 && time.Since(since) < look.Fallback {
		t.Errorf("%d that wait sent %d statements", len(waiters), sent)
	}
	cancel()
	all.Wait()
	release(t, held)
}

// A user without any right but usage of the schema can lock, once somebody else has made it.
func TestUserWithoutRights(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	if _, err := admin.Exec(t.Context(), "create role app login"); err != nil {
		t.Fatal(err)
	}
	l := openURL(t, strings.Replace(server.URL(), "postgres@", "app@", 1))
	_, err := l.Acquire(within(t, patience), "x")
	if code(err) != "42501" || !strings.Contains(err.Error(), "schema.sql") {
		t.Errorf("without the schema: %v", err)
	}
	release(t, acquire(t, openURL(t, server.URL()), "x"))
	if _, err := l.Acquire(within(t, patience), "x"); code(err) != "42501" {
		t.Errorf("without usage: %v", err)
	}
	if _, err := admin.Exec(t.Context(), "grant usage on schema locker to app"); err != nil {
		t.Fatal(err)
	}
	held := acquire(t, l, "x")
	if all, err := locker.Inspect(within(t, patience), l, "x"); err != nil || len(all) != 1 {
		t.Errorf("inspect: %v %v", all, err)
	}
	other := openURL(t, server.URL())
	done := make(chan struct{})
	go func() {
		defer close(done)
		release(t, acquire(t, other, "x"))
	}()
	eventually.Is(t, "the other waits", func() bool { return ask[int](t, admin, "select count(*) from locker.claim") == 2 })
	release(t, held) // tells the other by NOTIFY
	<-done
}

// Many Lockers that are the first to use a database make the schema together. It can be made again by hand.
func TestSchemaIsMadeOnce(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	var all sync.WaitGroup
	for i := range 8 {
		l := openURL(t, server.URL(), WithSchema(`odd "name" Σ`))
		all.Go(func() { release(t, acquire(t, l, fmt.Sprint(i))) })
	}
	all.Wait()
	held := acquire(t, openURL(t, server.URL()), "x")
	must(t, server.RunSQL(t.Context(), "schema.sql", "schema=locker", "persistence=unlogged"))
	release(t, held)

	release(t, acquire(t, openURL(t, server.URL()), "y"))

	// What a later version of this package made is refused.
	admin := newPool(t, server.URL())
	if _, err := admin.Exec(t.Context(), "create or replace function locker.version() returns int language sql as 'select 2'"); err != nil {
		t.Fatal(err)
	}
	if _, err := openURL(t, server.URL()).Acquire(within(t, patience), "x"); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("with a later version: %v", err)
	}
}

// IDs of claims.
const (
	oneID   = "00000000-0000-0000-0000-000000000001"
	otherID = "00000000-0000-0000-0000-000000000002"
)

// try asks for a name as a claim that does not wait, and returns the state that the server answers, for which it
// waits longer than a Locker does.
func try(t testing.TB, admin *pgxpool.Pool, name, id string) string {
	t.Helper()
	return ask[string](t, admin, "select state from locker.acquire($1, $2, 1, 1, 0, 3600000, '', 9223372036854775807, false, null)", []byte(name), id)
}

// A new schema has lost nothing: the first request is granted.
func TestFirstTry(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	must(t, server.RunSQL(t.Context(), "schema.sql", "schema=locker", "persistence=unlogged"))
	if state := try(t, newPool(t, server.URL()), "x", oneID); state != "granted" {
		t.Error(state)
	}
}

// A schema that is dropped while Lockers use it is made again.
func TestSchemaIsDropped(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	l := openURL(t, server.URL())
	first := acquire(t, l, "x")
	release(t, first)
	if _, err := newPool(t, server.URL()).Exec(t.Context(), "drop schema locker cascade"); err != nil {
		t.Fatal(err)
	}
	second := acquire(t, l, "x")
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.Token(), first.Token())
	}
	release(t, second)
}

// Connections on which nothing can work are refused at once: at another isolation level the functions would see an old
// queue, and the client library sends nothing with another encoding.
func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	release(t, acquire(t, openURL(t, server.URL()), "x"))
	for setting, c := range map[string]struct{ value, want string }{
		"default_transaction_isolation": {"serializable", "read committed"},
		"client_encoding":               {"LATIN1", "LATIN1"},
		"standard_conforming_strings":   {"off", "off"},
	} {
		l := openOn(t, newPool(t, server.URL(), func(config *pgxpool.Config) { config.ConnConfig.RuntimeParams[setting] = c.value }))
		_, err := l.Acquire(within(t, patience), "x")
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.want) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// The pool's own settings do not matter.
func TestPoolSettings(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	for _, mode := range modes {
		l := openOn(t, newPool(t, server.URL(), func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = mode
			c.ConnConfig.RuntimeParams["search_path"] = "nowhere"
			c.MaxConns = 1
		}))
		held := acquire(t, l, "x\x00\\'\xff", locker.As("ow'ner\\\x00\xfe"))
		all, err := locker.Inspect(within(t, patience), l, "x\x00\\'\xff")
		if err != nil || len(all) != 1 || all[0].Owner != "ow'ner\\\x00\xfe" {
			t.Errorf("%v: inspect: %v %v", mode, all, err)
		}
		release(t, held)
	}
}

// A pool that was closed is no outage.
func TestClosedPool(t *testing.T) {
	t.Parallel()
	pool := newPool(t, servers.NewPostgres(t, servers.PostgresOptions{}).URL())
	l := openOn(t, pool)
	pool.Close()
	if _, err := l.Acquire(within(t, time.Minute), "x"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("on a closed pool: %v", err)
	}
}

// A server that says nothing is an error of its own: the context of the call has not ended.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	proxy, url := front(t, server.Addr())
	l := openURL(t, url)
	release(t, acquire(t, l, "x"))
	proxy.Freeze()
	defer proxy.Cut()
	_, err := l.TryAcquire(within(t, time.Minute), "x")
	if !errors.Is(err, sqlqueue.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("from a silent server: %v", err)
	}
}

// Hooks of the pool that heed no context keep nobody from returning when its context ends.
func TestHooksThatHang(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	var hangs atomic.Bool
	hang := make(chan struct{})
	l := openOn(t, newPool(t, server.URL(), func(c *pgxpool.Config) {
		c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
			if hangs.Load() {
				<-hang
			}
			return true, nil
		}
	}))
	release(t, acquire(t, l, "x"))
	hangs.Store(true)
	defer close(hang)
	for name, call := range map[string]func(ctx context.Context) error{
		"try":     func(ctx context.Context) error { _, err := l.TryAcquire(ctx, "x"); return err },
		"acquire": func(ctx context.Context) error { _, err := l.Acquire(ctx, "x"); return err },
	} {
		returned := make(chan error, 1)
		go func() { returned <- call(within(t, 100*time.Millisecond)) }()
		if err := locktest.Receive(t, name, returned, 20*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A pool whose connections wait for something when a context ends keeps nobody waiting either.
func TestHandlerThatWaits(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	l := openOn(t, newPool(t, server.URL(), func(c *pgxpool.Config) {
		c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, CancelRequestDelay: time.Hour, DeadlineDelay: time.Hour}
		}
	}))
	release(t, acquire(t, l, "x"))
	must(t, server.Pause())
	defer func() {
		if err := server.Resume(); err != nil {
			t.Error(err)
		}
	}()
	returned := make(chan error, 1)
	go func() { _, err := l.TryAcquire(within(t, 100*time.Millisecond), "x"); returned <- err }()
	err := locktest.Receive(t, "the call", returned, 20*time.Second)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A user cannot put a table of its own before those that the functions use.
func TestTemporaryTableIsNotUsed(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	held := acquire(t, openURL(t, server.URL()), "x")
	l := openOn(t, newPool(t, server.URL(), func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "create temporary table claim (like locker.claim including all)")
			return err
		}
	}))
	if _, err := l.TryAcquire(within(t, patience), "x"); !errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("with a temporary table: %v", err)
	}
	release(t, held)
}

// What the dead leave is removed by whoever uses locks, although nobody asks for their names.
func TestSweep(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	release(t, acquire(t, openURL(t, server.URL()), "x"))
	for _, until := range []string{"- interval '2 minutes'", "+ interval '1 minute'"} {
		if _, err := admin.Exec(t.Context(), `insert into locker.claim
			select gen_random_uuid(), ('name'||i)::bytea, i, 1, 1, 0, 1000, '', i, true, now(), clock_timestamp() `+until+` from generate_series(1, 100) i`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Exec(t.Context(), `insert into locker.ttl_in_use
		select i, clock_timestamp() + (i - 3) * interval '50 minutes' from generate_series(1, 4) i`); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, openURL(t, server.URL()), "y"))
	eventually.Is(t, "what is over is removed, and nothing else", func() bool {
		return ask[int](t, admin, "select count(*) from locker.claim") == 100 && ask[int](t, admin, "select count(*) from locker.ttl_in_use where ttl < 5") == 3
	})
}

// A waiter whose process listens no longer, and one that is not heard of, is passed over.
func TestDeadWaitersArePassedOver(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	l := openURL(t, server.URL())
	for name, dead := range map[string]string{
		"nobody listens": "clock_timestamp() + interval '1 hour', 4711",
		"not heard of":   "clock_timestamp() - interval '1 millisecond', null",
	} {
		held := acquire(t, l, name)
		if _, err := admin.Exec(t.Context(), `insert into locker.claim select gen_random_uuid(), $1, nextval('locker.serial'), 2147483647, 2147483647,
			0, 3600000, '', null, true, now(), `+dead, []byte(name)); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			release(t, acquire(t, l, name))
		}()
		release(t, held)
		<-done
	}
}

// A permit that is released is given to the first who waits, and those for whom none is left are not looked at: they may be many.
func TestManyWaitForPermits(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	must(t, server.RunSQL(t.Context(), "schema.sql", "schema=locker", "persistence=unlogged"))
	const permits, waiters = 10, 40
	for i := range permits + waiters {
		if _, err := admin.Exec(t.Context(), `select locker.acquire('x', md5($1::text)::uuid, 1, $2, 0, 3600000, '',
			9223372036854775807, true, null)`, fmt.Sprint(i), permits); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := admin.Begin(t.Context())
	must(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "set local track_functions = 'all'")
	must(t, err)
	_, err = tx.Exec(t.Context(), "select locker.release('x', md5('0')::uuid, 0, 0)")
	must(t, err)
	var looked, held int
	must(t, tx.QueryRow(t.Context(), "select calls from pg_stat_xact_user_functions where funcname = 'passed_over'").Scan(&looked))
	must(t, tx.QueryRow(t.Context(), "select count(*) from locker.claim where token is not null").Scan(&held))
	if looked != 1 || held != permits {
		t.Errorf("%d of %d who wait were looked at, %d hold the name", looked, waiters, held)
	}
}

// One that is granted the name and is dead by then has it for its own TTL, not for that of the holder before it,
// of which those behind know.
func TestDeadWaiterWithShortTTL(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	l, next := openURL(t, server.URL(), locker.WithTTL(time.Hour)), openURL(t, server.URL(), locker.WithTTL(time.Hour))
	held := acquire(t, l, "x")
	if _, err := admin.Exec(t.Context(), `insert into locker.claim select gen_random_uuid(), 'x', nextval('locker.serial'), 2147483647, 2147483647,
		0, 10000, '', null, true, now(), clock_timestamp() + interval '10 seconds', null`); err != nil {
		t.Fatal(err)
	}
	waiter := locktest.Begin(within(t, 2*time.Minute), next, "x")
	eventually.Is(t, "the other waits", func() bool { return waiting(t, admin) == 1 })
	release(t, held)
	release(t, waiter.Granted(t, 15*time.Second)) // promised are eleven, a look comes after twenty
}

// A dead waiter is passed over also while another transaction, about another name, has just found that it is dead.
func TestDeadWaiterIsFoundTwice(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	held := acquire(t, openURL(t, server.URL()), "x")
	if _, err := admin.Exec(t.Context(), `insert into locker.claim select gen_random_uuid(), name::bytea, nextval('locker.serial'), 2147483647, 2147483647,
		0, 3600000, '', null, true, now(), clock_timestamp() + interval '1 hour', 4711 from unnest(array['x', 'y']) name`); err != nil {
		t.Fatal(err)
	}
	tx, err := admin.Begin(within(t, patience))
	must(t, err)
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(within(t, patience), "select locker.release('y', gen_random_uuid(), 0, 0)"); err != nil {
		t.Fatal(err)
	}
	release(t, held)
	if n := ask[int](t, admin, "select count(*) from locker.claim where name = 'x'"); n != 0 {
		t.Error("the dead one was granted the name")
	}
}

// blocked begins a transaction that holds something up, and a call that meets it; the call has met it when blocked returns.
func blocked(t *testing.T, admin *pgxpool.Pool, by string, call func()) (pgx.Tx, <-chan struct{}) {
	t.Helper()
	tx, err := admin.Begin(within(t, patience))
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(within(t, patience), by); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	eventually.Is(t, "the call is held up", func() bool {
		return ask[int](t, admin, "select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == 1
	})
	return tx, done
}

// A holder whose time is over and whose row is removed just now by another, as sweep does, is in nobody's way.
func TestDeadHolderIsSwept(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	release(t, acquire(t, openURL(t, server.URL()), "x"))
	if _, err := admin.Exec(t.Context(), `insert into locker.claim values (gen_random_uuid(), 'x', 1, 1, 1,
		0, 3600000, '', 1, true, now(), clock_timestamp() - interval '30 seconds', null)`); err != nil {
		t.Fatal(err)
	}
	var state string
	tx, done := blocked(t, admin, "delete from locker.claim", func() { state = try(t, admin, "x", oneID) })
	must(t, tx.Commit(within(t, patience)))
	if <-done; state != "granted" {
		t.Error(state)
	}
}

// sizes notes how much was read at most, from the server, after one request.
type sizes struct {
	net.Conn
	read atomic.Int64
	most *atomic.Int64
}

func (s *sizes) Write(p []byte) (int, error) {
	s.read.Store(0)
	return s.Conn.Write(p)
}

func (s *sizes) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.most.Store(max(s.most.Load(), s.read.Add(int64(n))))
	return n, err
}

// The answers to a renewal of many claims fit into the 8 KB that a server keeps before it sends anything. What is more would be
// sent before the commit: a network that takes no more would keep the rows locked.
func TestRenewalIsAnsweredAfterTheCommit(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	var most atomic.Int64
	pool := newPool(t, server.URL(), func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return &sizes{Conn: conn, most: &most}, err
		}
	})
	cfg, err := locker.NewConfig[struct{}]("postgres", nil)
	must(t, err)
	b := newBackend(pool, cfg, settings{})
	locktest.CloseAfter(t, b.Close)
	first := locktest.Claim("first", locker.MaxTTL, false)
	locktest.Take(t, b, first)
	claims := make([]*driver.Claim, 1000)
	for i := range claims {
		claims[i] = locktest.Claim(fmt.Sprint(i), locker.MaxTTL, false)
		claims[i].ID = fmt.Sprintf("%032x", i)
	}
	if _, err := admin.Exec(t.Context(), `insert into locker.claim select lpad(to_hex(i), 32, '0')::uuid, i::text::bytea, i, 1, 1,
		0, ttl, '', i, true, now(), until, null from locker.claim, generate_series(0, 999) i`); err != nil {
		t.Fatal(err)
	}
	most.Store(0)
	eventually.Is(t, "all are renewed", func() bool { // a request that takes five seconds is given up
		renewed := 0
		b.Renew(within(t, patience), claims, func(_ *driver.Claim, _ driver.Instant, err error) {
			if err == nil {
				renewed++
			}
		})
		return renewed == len(claims)
	})
	if n := most.Load(); n > 8192 {
		t.Errorf("%d bytes were answered at once", n)
	}
	locktest.Free(t, b, first)
}

// What a renewal has gained is not taken back by a request that began before it and was held up.
func TestRenewalIsKept(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	release(t, acquire(t, openURL(t, server.URL(), locker.WithTTL(time.Hour)), "x"))
	const renew = "select time_left from locker.renew(array['" + oneID + "'::uuid], array[3600000])"
	for name, c := range map[string]struct {
		by   string
		call func()
	}{
		"another asks":      {"lock table locker.epoch", func() { try(t, admin, "x", otherID) }},
		"the holder asks":   {"lock table locker.epoch", func() { try(t, admin, "x", oneID) }},
		"the holder renews": {"update locker.claim set ttl = ttl", func() { ask[int64](t, admin, renew) }},
	} {
		if _, err := admin.Exec(t.Context(), `insert into locker.claim values ('`+oneID+`', 'x', 1, 1, 1,
			0, 3600000, '', 1, true, now(), clock_timestamp() + interval '1 minute', null)`); err != nil {
			t.Fatal(err)
		}
		tx, done := blocked(t, admin, c.by, c.call)
		var renewed time.Time
		_, err := tx.Exec(within(t, patience), renew)
		err = errors.Join(err, tx.QueryRow(within(t, patience), "select until from locker.claim").Scan(&renewed), tx.Commit(within(t, patience)))
		must(t, err)
		<-done
		if until := ask[time.Time](t, admin, "delete from locker.claim returning until"); until.Before(renewed) {
			t.Errorf("%s: it was held until %v, and is until %v", name, renewed, until)
		}
	}
}

// A request that arrives when what its claim held is over, and was to linger, has no effect.
func TestLateAcquireAfterLinger(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	release(t, acquire(t, openURL(t, server.URL(), locker.WithTTL(time.Hour)), "x"))
	if state := try(t, admin, "x", oneID); state != "granted" {
		t.Fatal(state)
	}
	const linger = "select locker.release('x', '" + oneID + "', 1, locker.micros(now() + interval '1 hour'))"
	if answer := ask[int](t, admin, linger); answer != 1 {
		t.Fatalf("answer %d", answer)
	}
	eventually.Is(t, "it is over", func() bool { return ask[bool](t, admin, "select until < clock_timestamp() from locker.claim") })
	if state := try(t, admin, "x", oneID); state != "given up" {
		t.Errorf("the late request: %s", state)
	}
}

// The server remembers a TTL for as long as a claim may last that is granted a while after it has asked.
func TestTTLIsRememberedInTime(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	release(t, acquire(t, openURL(t, server.URL()), "x"))
	if _, err := admin.Exec(t.Context(), "insert into locker.ttl_in_use values (3600000, now() + interval '61 minutes')"); err != nil {
		t.Fatal(err)
	}
	try(t, admin, "x", oneID)
	if left := ask[float64](t, admin, "select extract(epoch from until - now())::float8 from locker.ttl_in_use where ttl = 3600000"); left < 90*60 {
		t.Errorf("remembered for %v s more", left)
	}
}

// Where the connection that listens leads to another database waiters ask, and are granted all the same.
func TestListenElsewhere(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	if _, err := admin.Exec(within(t, patience), "create database elsewhere"); err != nil {
		t.Fatal(err)
	}
	other := newPool(t, server.URL()).Config().ConnConfig
	other.Database = "elsewhere"
	held := acquire(t, openURL(t, server.URL(), locker.WithTTL(time.Hour)), "x")
	waiter := locktest.Begin(within(t, 2*time.Minute), openURL(t, server.URL(), locker.WithTTL(time.Hour), WithListen(other)), "x")
	eventually.Is(t, "the other asks", func() bool { return counted(t, admin)["due"] > 0 })
	release(t, held)
	release(t, waiter.Granted(t, 15*time.Second)) // a look of its own comes after twenty
}

// A name that stays taken for less long than was known is granted when that time is over, also to one that has become the
// first waiter by then, and to one that asks.
func TestAtLeastTellsTheFirst(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	holder := openURL(t, server.URL(), locker.WithTTL(time.Hour))
	for _, name := range []string{"alone", "polls", "the first gives up", "the first is dead"} {
		t.Run(name, func(t *testing.T) {
			in := func(condition string) func() bool {
				return func() bool {
					return ask[int](t, admin, "select count(*) from locker.claim where token is null and name = $1 and "+condition, []byte(name)) == 1
				}
			}
			opts := []locker.Option{locker.WithTTL(time.Hour)}
			if name == "polls" {
				opts = append(opts, WithPolling(sqlqueue.PollEvery))
			}
			held := acquire(t, holder, name, locker.AtLeast(5*time.Second))
			first, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			if name == "the first gives up" {
				gone := locktest.Begin(first, openURL(t, server.URL(), opts...), name, locker.As("first"))
				defer func() { <-gone.Done }()
				eventually.Is(t, "the first waits", in("owner = 'first' and listener is not null"))
			}
			waiter := locktest.Begin(within(t, 2*time.Minute), openURL(t, server.URL(), opts...), name)
			eventually.Is(t, "the other waits", in(fmt.Sprint("owner <> 'first' and (listener is not null or ", name == "polls", ")")))
			if name == "the first is dead" {
				if _, err := admin.Exec(t.Context(), `insert into locker.claim select gen_random_uuid(), name, ticket - 1, weight, max,
					0, 3600000, '', null, true, now(), until, 4711 from locker.claim where token is null and name = $1`, []byte(name)); err != nil {
					t.Fatal(err)
				}
			}
			release(t, held)
			giveUp()
			release(t, waiter.Granted(t, 15*time.Second)) // a look of its own comes after twenty
		})
	}
}

// A permit that stays taken for less long than was known is granted when that time is over, also to one that has become the first
// waiter because the one before was granted another permit.
func TestAtLeastTellsTheNext(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	for name, opts := range map[string][]locker.Option{"told": nil, "polls": {WithPolling(sqlqueue.PollEvery)}} {
		t.Run(name, func(t *testing.T) {
			open := func() locker.Locker { return openURL(t, server.URL(), append(opts, locker.WithTTL(time.Hour))...) }
			locktest.NextPermit(t, name, open, func(n int) {
				eventually.Is(t, "it waits", func() bool {
					return ask[int](t, admin, "select count(*) from locker.claim where token is null and name = $1 and (listener is not null or $2)", []byte(name), name == "polls") == n
				})
			})
		})
	}
}

// One that waits for longer than anybody is remembered who does not ask keeps its place.
func TestLongAtLeastKeepsThePlace(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	held := acquire(t, openURL(t, server.URL(), locker.WithTTL(time.Hour)), "x", locker.AtLeast(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	waiter := locktest.Begin(ctx, openURL(t, server.URL(), locker.WithTTL(time.Hour)), "x")
	defer func() { cancel(); <-waiter.Done }()
	eventually.Is(t, "it waits", func() bool { return waiting(t, admin) == 1 })
	release(t, held)
	before := counted(t, admin)["acquire"]
	eventually.Is(t, "it asks", func() bool { return counted(t, admin)["acquire"] > before })
}

// A waiter that asks stays in the queue for longer than the time between two rounds of asking, however short its TTL.
func TestPollingWithShortTTL(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	held := acquire(t, openURL(t, server.URL(), locker.WithTTL(time.Hour)), "x")
	l := openURL(t, server.URL(), locker.WithTTL(locker.MinTTL), WithPolling(sqlqueue.PollEvery))
	ctx, cancel := context.WithCancel(t.Context())
	waiter := locktest.Begin(ctx, l, "x")
	eventually.Is(t, "it waits", func() bool {
		return ask[bool](t, admin, "select coalesce(bool_or(until > clock_timestamp() + interval '500 milliseconds'), false) from locker.claim where token is null")
	})
	cancel()
	<-waiter.Done
	release(t, held)
}

// A claim whose row turns out to be over is in the queue again when the answer says that it waits.
func TestWaitsHasARow(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	held := acquire(t, openURL(t, server.URL()), "x")
	for range 2 { // nobody listens by that number
		if state := ask[string](t, admin, `select state from locker.acquire('x', '00000000-0000-0000-0000-000000000001', 1, 1, 0, 3600000, '',
			9223372036854775807, true, 4711)`); state != "waits" {
			t.Error(state)
		}
		if n := ask[int](t, admin, "select count(*) from locker.claim where token is null"); n != 1 {
			t.Errorf("%d wait", n)
		}
	}
	release(t, held)
}

// Whoever waits behind one that polls looks when that one is over, if it polls no more.
func TestLooksWhenPollingWaiterIsOver(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	held := acquire(t, openURL(t, server.URL(), locker.WithTTL(time.Hour)), "x")
	wait := func(id string, ttl time.Duration) time.Duration {
		return time.Duration(ask[int64](t, admin, `select first_end from locker.acquire('x', md5($1)::uuid, 1, 1, 0, $2, '', 9223372036854775807, true, null)`,
			id, ttl.Milliseconds())) * time.Millisecond
	}
	earlier := func(minutes int) {
		_, err := admin.Exec(within(t, patience), "update locker.claim set until = until - $1 * interval '1 minute' where token is null", minutes)
		must(t, err)
	}
	wait("polls", 30*time.Minute)
	earlier(20)
	if look := wait("looks", time.Hour); look <= 0 || look > 10*time.Minute {
		t.Errorf("it looks after %v", look)
	}
	earlier(120) // they are over, and stay in the queue while nobody fits
	if look := wait("looks later", time.Hour); look < 30*time.Minute {
		t.Errorf("it looks after %v", look)
	}
	release(t, held)
}

// A statement that has met a deadlock is sent again.
func TestConflictIsSentAgain(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	cfg, err := locker.NewConfig[struct{}]("postgres", nil)
	must(t, err)
	b := newBackend(newPool(t, server.URL()), cfg, settings{})
	for _, conflict := range []string{"deadlock_detected", "serialization_failure"} {
		sent := 0
		lost, err := b.server.call(within(t, patience), func(ctx context.Context, conn *pgxpool.Conn) error {
			if sent++; sent > 1 {
				return nil
			}
			_, err := conn.Exec(ctx, "do $$ begin raise 'conflict' using errcode = '"+conflict+"'; end $$")
			return err
		})
		if lost || err != nil || sent != 2 {
			t.Errorf("%s: sent %d times, lost %v: %v", conflict, sent, lost, err)
		}
	}
}

// An error that the server has translated is known all the same.
func TestTranslatedError(t *testing.T) {
	if err := error(&pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "42P01"}); !ineffective(err) {
		t.Error("it may have had an effect")
	}
	if err := error(&pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"}); ineffective(err) {
		t.Error("the end of a session may come after the commit")
	}
}

// An ID that no claim can have is nobody's.
func TestEvictUnknown(t *testing.T) {
	t.Parallel()
	l := openURL(t, servers.NewPostgres(t, servers.PostgresOptions{}).URL())
	for _, id := range []string{"", "x", strings.Repeat("0", 32)} {
		if err := locker.Evict(within(t, patience), l, locker.Position{Name: "x", ID: id}); !errors.Is(err, locker.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// The tables do not grow with the number of locks taken, but with what is taken between two rounds of autovacuum: no
// larger after a million than after half of it (LOCKER_FAULTS=full), or fewer with an autovacuum that comes more often.
func TestBloat(t *testing.T) {
	t.Parallel()
	options, few, many, spare := servers.PostgresOptions{Args: []string{"-c", "autovacuum_naptime=1s"}}, 1000, 4000, int64(0)
	if faults.Full {
		options, few, many, spare = servers.PostgresOptions{}, 500_000, 500_000, 1<<20
	}
	server := servers.NewPostgres(t, options)
	admin := newPool(t, server.URL())
	l := openURL(t, server.URL())
	size := func() int64 {
		return ask[int64](t, admin, "select sum(pg_total_relation_size(c.oid))::bigint from pg_class c where c.relnamespace = 'locker'::regnamespace and relkind = 'r'")
	}
	pairs := func(n int) {
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for range n / 4 {
					release(t, acquire(t, l, fmt.Sprint("name ", i)))
				}
			})
		}
		all.Wait()
	}
	pairs(few)
	small := size()
	pairs(many)
	big := size()
	t.Logf("%d bytes after %d, %d after %d", small, few, big, few+many)
	for round := 1; big > 3*small+spare; round++ { // autovacuum may have come late
		if round > 3 {
			t.Fatal("they grow")
		}
		before := big
		pairs(many)
		big = size()
		t.Logf("%d bytes after %d more", big, many)
		if big <= before {
			break
		}
	}
}
