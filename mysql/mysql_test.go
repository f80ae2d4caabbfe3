package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/look"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/internal/sqlqueue"
)

func TestOptions(t *testing.T) {
	db := newPool(t, "root@tcp(nowhere.invalid)/x")
	for name, opt := range map[string]locker.Option{
		"empty schema":  WithSchema(""),
		"long schema":   WithSchema(strings.Repeat("x", 65)),
		"zero byte":     WithSchema("a\x00b"),
		"nil listen":    WithListen(nil),
		"zero polling":  WithPolling(0),
		"rare polling":  WithPolling(locker.DefaultTTL),
		"another's TTL": locker.WithTTL(-1),
	} {
		if _, err := New(db, opt); !errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil); !errors.Is(err, locker.ErrInvalidOption) {
		t.Errorf("nil db: %v", err)
	}
}

// questions returns how many statements clients have sent so far, but those of this function.
func questions(t testing.TB, admin *sql.DB) (n int) {
	t.Helper()
	var name string
	must(t, admin.QueryRowContext(within(t, patience), "show global status like 'Questions'").Scan(&name, &n))
	return n - 1
}

// waiting returns how many wait and can be woken.
func waiting(t testing.TB, admin *sql.DB) int {
	t.Helper()
	return ask[int](t, admin, "select count(*) from locker.claim where token is null and listener is not null")
}

// sleeping returns how many Lockers sleep on a connection until they are told news.
func sleeping(t testing.TB, admin *sql.DB) int {
	t.Helper()
	return ask[int](t, admin, "select count(*) from information_schema.processlist where state = 'User lock'")
}

// keeper returns the number of the connection that has the named lock for which all sleep, 0 if there is none.
func keeper(t testing.TB, admin *sql.DB) int64 {
	t.Helper()
	return ask[int64](t, admin, "select coalesce(is_used_lock('locker.asleep'), 0)")
}

// claim sends acquire for a claim that waits, and returns the answered first_end.
func claim(t testing.TB, admin *sql.DB, name, id string, weight, most int, ttl time.Duration, listener sql.NullInt64) time.Duration {
	t.Helper()
	var end int64
	var other any
	row := admin.QueryRowContext(within(t, patience), "call locker.acquire(?, unhex(md5(?)), ?, ?, 0, ?, '', 9223372036854775807, true, ?)",
		name, id, weight, most, ttl.Milliseconds(), listener)
	must(t, row.Scan(&other, &other, &other, &other, &end, &other))
	return time.Duration(end) * time.Millisecond
}

// acquireAside acquires and releases a name in another goroutine, and returns what is closed when that is done.
func acquireAside(t testing.TB, l locker.Locker, name string) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		lock, err := l.Acquire(within(t, 2*time.Minute), name)
		if err == nil {
			err = lock.Release(within(t, 30*time.Second))
		}
		if err != nil {
			t.Error(err)
		}
	}()
	return done
}

// A free lock costs two statements.
func TestStatementsPerLock(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	l := openDSN(t, server.DSN())
	release(t, acquire(t, l, "warm"))
	n := locktest.Requests(100, func() int { // the sweep after the first use may count among the first
		before := questions(t, admin)
		for range 50 {
			release(t, acquire(t, l, "x"))
		}
		return questions(t, admin) - before - 1
	})
	if n < 90 || n > 100 { // a release that was given up late may be missing
		t.Errorf("50 pairs took %d statements", n)
	}
}

// What the server does in a release does not grow with how many wait for permits.
func TestManyWaitForPermits(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	release(t, acquire(t, openDSN(t, server.DSN()), "x"))
	ctx := within(t, patience)
	conn, err := admin.Conn(ctx)
	must(t, err)
	defer conn.Close()
	statements := func() (n int) {
		var name string
		must(t, conn.QueryRowContext(ctx, "show session status like 'Queries'").Scan(&name, &n))
		return n
	}
	in := func(waiters int) int {
		name := fmt.Sprint("waiters ", waiters)
		const permits = 10
		for i := range permits + waiters {
			do(t, admin, "call locker.acquire(?, unhex(md5(?)), 1, ?, 0, 3600000, '', 9223372036854775807, true, null)", name, fmt.Sprint(name, i), permits)
		}
		before := statements()
		_, err := conn.ExecContext(ctx, "call locker.release(?, unhex(md5(?)), 0, 0, false)", name, fmt.Sprint(name, 0))
		must(t, err)
		sent := statements() - before
		if n := ask[int](t, admin, "select count(*) from locker.claim where name = ? and token is not null", name); n != permits {
			t.Errorf("%d hold the name when %d wait", n, waiters-1)
		}
		return sent
	}
	if few, many := in(2), in(40); many > few+10 { // those who wait would be three each
		t.Errorf("%d statements within a release if 40 wait, %d if 2 do", many, few)
	}
}

// Those that wait, and have nothing to wait for soon, send nothing: their Locker is asleep on the server.
func TestIdleWaitersSendNothing(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	held := acquire(t, openDSN(t, server.DSN()), "x", locker.WithLease(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	const lockers = 10
	begun := time.Now()
	for range lockers {
		l := openDSN(t, server.DSN())
		all.Go(func() { _, _ = l.Acquire(ctx, "x") })
	}
	eventually.Is(t, "all can be woken", func() bool { return waiting(t, admin) == lockers })
	eventually.Is(t, "all are asleep, and poll no more", func() bool {
		return ask[int](t, admin, "select count(*) from information_schema.processlist where state = 'User lock' and time_ms > ?",
			2*pollAfter[1].Milliseconds()) == lockers
	})
	since, before := time.Now(), questions(t, admin)
	time.Sleep(3 * time.Second) // in which nothing may happen but the check of the holder
	sent := questions(t, admin) - before - 1
	if most := 2 + int(time.Since(since)/sqlqueue.CheckEvery); sent > most && time.Since(begun) < look.Fallback {
		t.Errorf("%d that wait sent %d statements", lockers, sent)
	}
	cancel()
	all.Wait()
	release(t, held)
}

// A user without any right but to execute can lock, and be woken, once somebody else has made the schema.
func TestUserWithoutRights(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	do(t, admin, "create user app@'127.0.0.1'")
	app := strings.Replace(strings.Replace(server.DSN(), "root@", "app@", 1), "/app", "/", 1)
	l := openDSN(t, app)
	if _, err := l.Acquire(within(t, patience), "x"); code(err) == 0 || !strings.Contains(err.Error(), "schema.sql") {
		t.Errorf("without the schema: %v", err)
	}
	release(t, acquire(t, openDSN(t, server.DSN()), "x"))
	if _, err := l.Acquire(within(t, patience), "x"); code(err) == 0 || !strings.Contains(err.Error(), "schema.sql") {
		t.Errorf("without the right to execute: %v", err)
	}
	do(t, admin, "grant execute on locker.* to app@'127.0.0.1'")
	held := acquire(t, l, "x")
	if all, err := locker.Inspect(within(t, patience), l, "x"); err != nil || len(all) != 1 {
		t.Errorf("inspect: %v %v", all, err)
	}
	done := acquireAside(t, openDSN(t, app), "x")
	eventually.Is(t, "the other can be woken", func() bool { return waiting(t, admin) == 1 })
	release(t, held)
	<-done
}

// Where the procedures belong to a user who may not wake others, waiters ask, and are granted all the same.
func TestWakingNotPermitted(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	for _, s := range []string{
		"create user maker@'127.0.0.1'", "grant all on locker.* to maker@'127.0.0.1'",
		"create user app@'127.0.0.1'", "grant execute on locker.* to app@'127.0.0.1'",
	} {
		do(t, admin, s)
	}
	as := func(user string) locker.Locker {
		dsn := strings.Replace(strings.Replace(server.DSN(), "root@", user+"@", 1), "/app", "/", 1)
		return openDSN(t, dsn, locker.WithTTL(time.Minute))
	}
	release(t, acquire(t, as("maker"), "x"))
	l := as("app")
	held := acquire(t, l, "x")
	done := acquireAside(t, as("app"), "x")
	eventually.Is(t, "the other waits", func() bool { return ask[int](t, admin, "select count(*) from locker.claim") == 2 })
	inTime := locktest.Limit(t, promptly)
	release(t, held)
	<-done
	inTime("the grant")
	if n := waiting(t, admin); n > 0 {
		t.Errorf("%d are known as some that can be woken", n)
	}
}

// Many Lockers that are the first to use a database make the schema together. It can be made again by hand.
func TestSchemaIsMadeOnce(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	var all sync.WaitGroup
	for i := range 8 {
		l := openDSN(t, server.DSN(), WithSchema("odd `name` \" Σ"))
		all.Go(func() { release(t, acquire(t, l, fmt.Sprint(i))) })
	}
	all.Wait()
	held := acquire(t, openDSN(t, server.DSN()), "x")
	file, err := filepath.Abs("schema.sql")
	must(t, err)
	must(t, server.RunSQL(t.Context(), file, "locker"))
	release(t, held)

	// What a later version of this package made is refused.
	admin := newPool(t, server.DSN())
	do(t, admin, "drop procedure locker.schema_version")
	do(t, admin, "create procedure locker.schema_version() select 2")
	if _, err := openDSN(t, server.DSN()).Acquire(within(t, patience), "x"); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("with a later version: %v", err)
	}
}

// A schema that is dropped while Lockers use it is made again, and tokens go on rising although all that was
// remembered of them is lost.
func TestSchemaIsDropped(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin, l := newPool(t, server.DSN()), openDSN(t, server.DSN(), locker.WithTTL(time.Hour))
	first := acquire(t, l, "x")
	release(t, first)
	do(t, admin, "drop database locker")
	second := acquire(t, l, "x")
	if second.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.Token(), first.Token())
	}

	// A procedure that is found missing only after the release was committed does not turn that into a loss.
	do(t, admin, "drop procedure locker.ring_all")
	do(t, admin, "create procedure locker.ring_all(bells text) call locker.missing()")
	do(t, admin, "drop procedure locker.schema_version")
	release(t, second)
}

// Whatever sessions of the pool are set to does not matter. With one connection waiters ask.
func TestPoolSettings(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{Args: []string{"--log-bin", "--server-id=1"}})
	const name = "x\x00\\'`\"\xff "
	for _, params := range []string{
		"autocommit=0", "clientFoundRows=true", "tx_isolation='serializable'", "sql_mode='ansi,no_backslash_escapes'",
		"time_zone='%2B03:00'", "charset=latin1", "completion_type=1", "binlog_format='row'", "sql_safe_updates=1",
		"interpolateParams=true", "multiStatements=true", "parseTime=true",
	} {
		db := newPool(t, server.DSN()+"?"+params)
		db.SetMaxOpenConns(1)
		l, other := openOn(t, db), openDSN(t, server.DSN()+"?"+params)
		held, err := l.Acquire(within(t, 30*time.Second), name, locker.As("ow'ner\\\x00\xfe"))
		if err != nil {
			t.Errorf("%s: %v", params, err)
			continue
		}
		all, err := locker.Inspect(within(t, patience), l, name)
		if err != nil || len(all) != 1 || all[0].Owner != "ow'ner\\\x00\xfe" || time.Since(all[0].Since).Abs() > time.Minute {
			t.Errorf("%s: inspect: %v %v", params, all, err)
		}
		done := acquireAside(t, other, name)
		eventually.Is(t, params+": the other waits", func() bool {
			all, err := locker.Inspect(within(t, patience), l, name)
			return err == nil && len(all) == 2
		})
		release(t, held)
		<-done
	}
}

// A Locker that cannot listen because others have the rest of the pool leaves its last connection to statements.
func TestPoolIsTooSmallToListen(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin, other := newPool(t, server.DSN()), openDSN(t, server.DSN())
	x, y := acquire(t, other, "x"), acquire(t, other, "y")
	db := newPool(t, server.DSN())
	db.SetMaxOpenConns(3)
	l1, l2 := openOn(t, db), openOn(t, db)
	first := locktest.Begin(within(t, 2*time.Minute), l1, "x")
	eventually.Is(t, "the first can be woken", func() bool { return waiting(t, admin) == 1 })
	waited := func() time.Duration { return db.Stats().WaitDuration }
	before := waited()
	second := locktest.Begin(within(t, 2*time.Minute), l2, "y")
	for waited() < before+sqlqueue.Brief/2 { // until statements had to wait
		inTime := locktest.Limit(t, 4*sqlqueue.Brief)
		release(t, acquire(t, l1, "z"))
		inTime("what does not wait")
	}
	release(t, x)
	release(t, y)
	release(t, first.Granted(t, promptly))
	release(t, second.Granted(t, promptly))
}

// The first Locker that listens waits a moment for a second connection where statements of others have the rest of the pool.
func TestListensOnABusyPool(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	held := acquire(t, openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), "x")
	db := newPool(t, server.DSN())
	db.SetMaxOpenConns(3)
	var busy [2]*sql.Conn
	for i := range busy {
		var err error
		busy[i], err = db.Conn(within(t, patience))
		must(t, err)
	}
	waiter := locktest.Begin(within(t, 5*time.Minute), openOn(t, db), "x")
	eventually.Within(t, 2*time.Minute, "it has one, and waits for another", func() bool {
		return keeper(t, admin) != 0 && db.Stats().InUse == 3
	})
	for _, conn := range busy {
		must(t, conn.Close())
	}
	eventually.Within(t, 3*time.Minute, "it can be woken", func() bool { return waiting(t, admin) == 1 })
	release(t, held)
	release(t, waiter.Granted(t, promptly))
}

// With a pool for listening that has no connection to spare for the keeper waiters poll, and leave that pool alone. With
// one more they listen.
func TestPoolForListening(t *testing.T) {
	t.Parallel()
	for listening := range 2 {
		t.Run(fmt.Sprint(listening), func(t *testing.T) {
			t.Parallel()
			server := servers.NewMariaDB(t, servers.MariaDBOptions{})
			admin := newPool(t, server.DSN())
			p, dsn := front(t, server)
			pool := newPool(t, dsn)
			pool.SetMaxOpenConns(1 + listening)
			held := acquire(t, openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), "x")
			waiter := locktest.Begin(within(t, 3*time.Minute), openDSN(t, server.DSN(), WithListen(pool)), "x")
			eventually.Is(t, "it has tried to listen", func() bool {
				return p.Stats().Accepted > 0 && pool.Stats().InUse == 2*listening && waiting(t, admin) == listening
			})
			if pool.Stats().WaitCount > 0 {
				t.Error("it waited for a connection that nobody gives back")
			}
			inTime := locktest.Limit(t, promptly)
			release(t, held)
			lock := waiter.Granted(t, patience)
			inTime("the grant")
			release(t, lock)
		})
	}
}

// A pool that was closed is no outage.
func TestClosedPool(t *testing.T) {
	t.Parallel()
	db := newPool(t, servers.SharedMariaDB(t).DSN())
	l := openOn(t, db)
	_ = db.Close()
	if _, err := l.Acquire(within(t, time.Minute), "x"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("on a closed pool: %v", err)
	}
}

// A server that says nothing is an error of its own: the context of the call has not ended.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	proxy, dsn := front(t, servers.SharedMariaDB(t))
	l := openDSN(t, dsn)
	release(t, acquire(t, l, "no answer"))
	proxy.Freeze()
	defer proxy.Cut()
	_, err := l.TryAcquire(within(t, time.Minute), "no answer")
	if !errors.Is(err, sqlqueue.ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("from a silent server: %v", err)
	}
}

const now = "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))"

// What the dead leave is removed by whoever uses locks, although nobody asks for their names.
func TestSweep(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	release(t, acquire(t, openDSN(t, server.DSN()), "x"))
	for _, minutes := range []string{"- 120000000", "+ 120000000"} {
		do(t, admin, `insert into locker.claim (id, name, ticket, weight, most, spare, ttl, owner, token, since, expires)
			select unhex(md5(concat(seq, '`+minutes+`'))), concat('name', seq), seq, 1, 1, 0, 1000, '', seq, 0, `+now+minutes+` from seq_1_to_100`)
	}
	do(t, admin, "insert into locker.given_up values (unhex(md5('x')), 1)")
	release(t, acquire(t, openDSN(t, server.DSN()), "y"))
	eventually.Is(t, "what is over is removed, and nothing else", func() bool {
		return ask[int](t, admin, "select count(*) from locker.claim") == 100 && ask[int](t, admin, "select count(*) from locker.given_up") == 0
	})
}

// A waiter whose process is gone, and one that is not heard of, is passed over.
func TestDeadWaitersArePassedOver(t *testing.T) {
	t.Parallel()
	server := servers.SharedMariaDB(t)
	admin := newPool(t, server.DSN())
	l := openDSN(t, server.DSN(), locker.WithTTL(time.Hour))
	for name, dead := range map[string]string{
		"nobody listens": now + " + 3600000000, 4711",
		"not heard of":   now + " - 1000, null",
	} {
		held := acquire(t, l, name)
		do(t, admin, `insert into locker.claim (id, name, ticket, weight, most, spare, ttl, owner, since, expires, listener)
			select unhex(md5(?)), name, max(ticket) + 1, 2147483647, 2147483647, 0, 3600000, '', 0, `+dead+`
			from locker.claim where name = ?`, name, []byte(name))
		done := acquireAside(t, openDSN(t, server.DSN()), name)
		eventually.Is(t, "the other waits", func() bool {
			return ask[int](t, admin, "select count(*) from locker.claim where name = ? and token is null and owner <> ''", []byte(name)) == 1
		})
		release(t, held)
		<-done
	}
}

// A waiter whose connection is gone keeps its place for as long as nobody could be granted the name.
func TestWaiterConnectsAgain(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	hour := locker.WithTTL(time.Hour)
	held := acquire(t, openDSN(t, server.DSN(), hour), "x")
	const listens = "select count(*) from locker.claim where token is null and owner = ? and is_used_lock(concat('locker.', listener)) is not null"
	p, dsn := front(t, server)
	begin := func(dsn, owner string) *locktest.Acquisition[*locker.Lock] {
		waiter := locktest.Begin(within(t, 3*time.Minute), openDSN(t, dsn, hour), "x", locker.As(owner))
		eventually.Is(t, "it can be woken", func() bool { return ask[int](t, admin, listens, owner) == 1 })
		return waiter
	}
	first, second := begin(dsn, "first"), begin(server.DSN(), "second")
	p.Freeze()
	do(t, admin, fmt.Sprint("kill connection ", ask[int64](t, admin,
		"select is_used_lock(concat('locker.', listener)) from locker.claim where owner = 'first'")))
	eventually.Is(t, "its connection is gone", func() bool { return ask[int](t, admin, listens, "first") == 0 })
	if _, err := openDSN(t, server.DSN()).TryAcquire(within(t, patience), "x"); !errors.Is(err, locker.ErrNotAcquired) {
		t.Fatal(err)
	}
	p.Heal()
	eventually.Is(t, "it can be woken again", func() bool { return ask[int](t, admin, listens, "first") == 1 })
	release(t, held)
	release(t, first.Granted(t, promptly))
	release(t, second.Granted(t, promptly))
}

// Whoever fits beside the holders is not kept by a waiter, the only one, for longer than its TTL and a second after its death.
func TestDeadWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	held := acquire(t, openDSN(t, server.DSN()), "x", locker.Shared())
	sleep := func(n int) {
		eventually.Is(t, "all sleep", func() bool { return sleeping(t, admin) == n })
	}
	y := acquire(t, openDSN(t, server.DSN()), "y")
	first := locktest.Begin(within(t, 3*time.Minute), openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), "y")
	sleep(1)
	p, dsn := front(t, server)
	dead := openDSN(t, dsn, locker.WithTTL(time.Second))
	go func() { _, _ = dead.Acquire(t.Context(), "x") }()
	sleep(2)
	waiter := locktest.Begin(within(t, 3*time.Minute), openDSN(t, server.DSN()), "x", locker.Shared())
	sleep(3)
	eventually.Is(t, "all can be woken", func() bool { return waiting(t, admin) == 3 })
	inTime := locktest.Limit(t, 2*time.Second)
	p.Refuse()
	p.Cut()
	lock := waiter.Granted(t, patience)
	inTime("the grant")
	release(t, lock)
	release(t, held)
	release(t, y)
	release(t, first.Granted(t, promptly))
}

// waitForMany acquires n names, and has l wait for each of them.
func waitForMany(t *testing.T, admin *sql.DB, holder, l locker.Locker, n int) (held []*locker.Lock, waiters []*locktest.Acquisition[*locker.Lock]) {
	for i := range n {
		name := fmt.Sprint(i)
		held = append(held, acquire(t, holder, name))
		waiters = append(waiters, locktest.Begin(within(t, 3*time.Minute), l, name))
	}
	eventually.Is(t, "all can be woken", func() bool { return waiting(t, admin) == n })
	return held, waiters
}

// Names are released at the same time, whose waiters have one Locker that is woken for each: no release takes long.
func TestReleasesAtOnce(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin, db := newPool(t, server.DSN()), newPool(t, server.DSN())
	db.SetMaxOpenConns(64)
	db.SetMaxIdleConns(64)
	hour := locker.WithTTL(time.Hour)
	holder, l := openOn(t, db, hour), openOn(t, db, hour)
	for range 10 {
		held, waiters := waitForMany(t, admin, holder, l, 16)
		var all sync.WaitGroup
		inTime := locktest.Limit(t, time.Second)
		for _, lock := range held {
			all.Go(func() {
				if err := lock.Release(within(t, patience)); err != nil {
					t.Error("release:", err)
				}
				inTime("a release")
			})
		}
		all.Wait()
		for _, w := range waiters {
			release(t, w.Granted(t, promptly))
		}
	}
}

// The connection that has the named lock for which all sleep is lost: another takes its place, and waiters are told. The pool
// gets the lost ones back.
func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin, pool := newPool(t, server.DSN()), newPool(t, server.DSN())
	hour := locker.WithTTL(time.Hour)
	held := acquire(t, openDSN(t, server.DSN(), hour), "x")
	var waiters []*locktest.Acquisition[*locker.Lock]
	for i := range 3 {
		waiters = append(waiters, locktest.Begin(within(t, 3*time.Minute), openOn(t, pool, hour), "x"))
		eventually.Is(t, "it can be woken", func() bool { return waiting(t, admin) == i+1 })
	}
	for range 3 {
		old := keeper(t, admin)
		do(t, admin, "kill connection ?", old)
		eventually.Is(t, "there is another", func() bool { next := keeper(t, admin); return next != 0 && next != old })
		eventually.Is(t, "all sleep", func() bool { return sleeping(t, admin) == len(waiters) })
	}
	eventually.Is(t, "the pool has the lost ones back", func() bool { return pool.Stats().InUse == len(waiters)+1 })
	for _, w := range waiters {
		release(t, held)
		held = w.Granted(t, promptly)
	}
	release(t, held)
}

// Waiters for many names are told of their grants also where the server forgets to wake their Locker, as MariaDB does
// for a part of the time in which it looks for news of all of them.
func TestWakingIsForgotten(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin, db := newPool(t, server.DSN()), newPool(t, server.DSN())
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	hour := locker.WithTTL(time.Hour)
	holder, l := openOn(t, db, hour), openOn(t, db, hour)
	held, waiters := waitForMany(t, admin, holder, l, 200)
	for i, lock := range held {
		release(t, lock)
		release(t, waiters[i].Granted(t, promptly))
	}
}

// Thousands of waiters, of two Lockers by turns, are granted the name by one release.
func TestManyAreGrantedAtOnce(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	release(t, acquire(t, openDSN(t, server.DSN()), "x"))
	lockers, err := admin.Conn(t.Context())
	must(t, err)
	defer lockers.Close()
	const listener = "1000000000000000000 + "
	if _, err := lockers.ExecContext(within(t, patience), "do get_lock(concat('locker.', "+listener+"0), 0), get_lock(concat('locker.', "+listener+"1), 0)"); err != nil {
		t.Fatal(err)
	}
	do(t, admin, `insert into locker.claim (id, name, ticket, weight, most, spare, ttl, owner, since, expires, listener)
		select unhex(md5(seq)), 'x', seq, 1, 2147483647, 0, 3600000, '', 0, `+now+" + 3600000000, "+listener+"seq % 2 from seq_1_to_3300")
	// It is not sent by a Locker, which would send it again after five seconds.
	if _, err := admin.ExecContext(within(t, 5*time.Minute), "call locker.release('x', unhex(md5('nobody')), 0, 0, 0)"); err != nil {
		t.Error(err)
	}
	if n := ask[int](t, admin, "select count(*) from locker.claim where token is not null"); n != 3300 {
		t.Errorf("%d were granted the name", n)
	}
}

// What a renewal has gained is not taken back by a request that began before it and was held up.
func TestRenewalIsKept(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	release(t, acquire(t, openDSN(t, server.DSN()), "x"))
	const (
		holder, waiter = "unhex(md5('holder'))", "unhex(md5('waiter'))"
		expires        = "select expires from locker.claim where id = " + holder
	)
	acquire := func(id string) string {
		return "call locker.acquire('x', " + id + ", 1, 1, 0, 3600000, '', 9223372036854775807, true, null)"
	}
	for name, c := range map[string]struct{ locked, call, until string }{
		"another asks": {waiter, acquire(waiter), now + " + 60000000"},
		"another asks when the clock was set back": {holder, acquire(waiter), now + " + 7200000000"},
		"the holder asks":                          {holder, acquire(holder), now + " + 60000000"},
		"the holder renews":                        {holder, "call locker.renew(concat(" + holder + ", unhex(lpad(hex(3600000), 16, '0'))))", now + " + 60000000"},
	} {
		do(t, admin, "delete from locker.claim")
		do(t, admin, `insert into locker.claim (id, name, ticket, weight, most, spare, ttl, owner, token, since, expires) values
			(`+holder+", 'x', 1, 1, 1, 0, 3600000, '', 1, 0, "+c.until+"), ("+waiter+", 'x', 2, 1, 1, 0, 3600000, '', null, 0, "+now+" + 60000000)")
		tx, err := admin.Begin()
		must(t, err)
		defer tx.Rollback()
		if _, err := tx.ExecContext(within(t, patience), "select id from locker.claim where id = "+c.locked+" for update"); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			do(t, admin, c.call)
		}()
		eventually.Is(t, "the request is held up", func() bool {
			return ask[int](t, admin, "select variable_value from information_schema.global_status where variable_name = 'innodb_row_lock_current_waits'") == 1
		})
		time.Sleep(1100 * time.Millisecond) // to a clock that was set back by less nothing is done
		if _, err := tx.ExecContext(within(t, patience), "update locker.claim set expires = "+now+" + 3600000000 where id = "+holder); err != nil {
			t.Fatal(err)
		}
		var renewed int64
		must(t, errors.Join(tx.QueryRowContext(within(t, patience), expires).Scan(&renewed), tx.Commit()))
		<-done
		if until := ask[int64](t, admin, expires); until < renewed {
			t.Errorf("%s: shortened by %v", name, time.Duration(renewed-until)*time.Microsecond)
		}
	}
}

// A request that arrives when what its claim held is over, and was to linger, has no effect.
func TestLateAcquireAfterLinger(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	release(t, acquire(t, openDSN(t, server.DSN()), "x"))
	const holder = "unhex(md5('holder'))"
	ask := func() (state string) {
		var rest [5]sql.NullInt64
		err := admin.QueryRowContext(within(t, patience), "call locker.acquire('x', "+holder+", 1, 1, 0, 3600000, '', 9223372036854775807, false, null)").
			Scan(&state, &rest[0], &rest[1], &rest[2], &rest[3], &rest[4])
		must(t, err)
		return state
	}
	if state := ask(); state != "granted" {
		t.Fatal(state)
	}
	do(t, admin, "call locker.`release`('x', "+holder+", 1, "+now+" + 3600000000, false)")
	time.Sleep(20 * time.Millisecond) // until it is over
	if state := ask(); state != "given up" {
		t.Errorf("the late request: %s", state)
	}
}

// When the statements go to another server, and the connection that listens does not, it is made anew.
func TestServerIsReplaced(t *testing.T) {
	t.Parallel()
	first, second := servers.NewMariaDB(t, servers.MariaDBOptions{}), servers.NewMariaDB(t, servers.MariaDBOptions{})
	p, dsn := front(t, first)
	db := newPool(t, dsn)
	db.SetMaxIdleConns(-1) // each statement finds out where to go
	opt := locker.WithTTL(time.Hour)
	_, held := acquire(t, openDSN(t, first.DSN(), opt), "x"), acquire(t, openDSN(t, second.DSN(), opt), "x")
	waiter := locktest.Begin(within(t, 3*time.Minute), openOn(t, db, opt), "x")
	eventually.Is(t, "it can be woken", func() bool { return waiting(t, newPool(t, first.DSN())) == 1 })
	p.SetTarget(second.Addr())
	admin := newPool(t, second.DSN())
	eventually.Within(t, 2*time.Minute, "it can be woken by the other server", func() bool {
		return ask[int](t, admin, "select count(*) from locker.claim where token is null and is_used_lock(concat('locker.', listener)) is not null") == 1
	})
	release(t, held)
	release(t, waiter.Granted(t, 15*time.Second)) // a look of its own comes after twenty
}

// A name that stays taken for less long than was known is granted when that time is over, also to one that has become the
// first waiter by then.
func TestAtLeastTellsTheFirst(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	holder := openDSN(t, server.DSN(), locker.WithTTL(time.Hour))
	for _, name := range []string{"alone", "the first gives up", "the first is dead"} {
		t.Run(name, func(t *testing.T) {
			in := func(condition string) func() bool {
				return func() bool {
					return ask[int](t, admin, "select count(*) from locker.claim where token is null and listener is not null and name = ? and "+condition, []byte(name)) == 1
				}
			}
			held := acquire(t, holder, name, locker.AtLeast(4*time.Second))
			first, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			if name == "the first gives up" {
				gone := locktest.Begin(first, openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), name, locker.As("first"))
				defer func() { <-gone.Done }()
				eventually.Is(t, "the first can be woken", in("owner = 'first'"))
			}
			waiter := locktest.Begin(within(t, 2*time.Minute), openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), name)
			eventually.Is(t, "the other can be woken", in("owner <> 'first'"))
			if name == "the first is dead" {
				do(t, admin, `insert into locker.claim (id, name, ticket, weight, most, spare, ttl, owner, since, expires, listener)
					select unhex(md5('dead')), name, ticket - 1, weight, most, 0, 3600000, '', 0, expires, 4711 from locker.claim where token is null and name = ?`, []byte(name))
			}
			release(t, held)
			giveUp()
			release(t, waiter.Granted(t, 4*time.Second+promptly))
		})
	}
}

// A permit that stays taken for less long than was known is granted when that time is over, also to one that has become the first
// waiter because the one before was granted another permit.
func TestAtLeastTellsTheNext(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	for name, opts := range map[string][]locker.Option{"told": nil, "polls": {WithPolling(sqlqueue.PollEvery)}} {
		t.Run(name, func(t *testing.T) {
			open := func() locker.Locker { return openDSN(t, server.DSN(), append(opts, locker.WithTTL(time.Hour))...) }
			locktest.NextPermit(t, name, open, func(n int) {
				eventually.Is(t, "it waits", func() bool {
					return ask[int](t, admin, "select count(*) from locker.claim where token is null and name = ? and (listener is not null or ?)", []byte(name), name == "polls") == n
				})
			})
		})
	}
}

// A renewal of many claims is answered although one of them is released meanwhile.
func TestReleaseDuringRenewal(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	cfg, err := locker.NewConfig[struct{}]("mysql", nil)
	must(t, err)
	b := newBackend(newPool(t, server.DSN()), cfg, settings{})
	locktest.CloseAfter(t, b.Close)
	first, second := locktest.Claim("first", time.Hour, false), locktest.Claim("second", time.Hour, false)
	locktest.Take(t, b, first)
	locktest.Take(t, b, second)

	// The procedure stops between the statement that finds the claim and the next.
	_, code, _ := strings.Cut(schemaSQL, "\ncreate procedure renew(")
	code, _, _ = strings.Cut(code, "//")
	slow := strings.Replace(code, "set answer = concat", "do get_lock('pause', 60), release_lock('pause'); set answer = concat", 1)
	if slow == code {
		t.Fatal("the procedure is another one")
	}
	do(t, admin, "drop procedure locker.renew")
	do(t, admin, "create procedure locker.renew("+slow)
	pause, err := admin.Conn(t.Context())
	must(t, err)
	defer pause.Close()
	if _, err := pause.ExecContext(within(t, patience), "do get_lock('pause', 0)"); err != nil {
		t.Fatal(err)
	}

	answers := make(map[*driver.Claim]error)
	renewed, begun := make(chan struct{}), time.Now()
	go func() {
		defer close(renewed)
		b.Renew(within(t, patience), []*driver.Claim{first, second}, func(c *driver.Claim, _ driver.Instant, err error) { answers[c] = err })
	}()
	eventually.Is(t, "the renewal pauses", func() bool {
		return sleeping(t, admin) == 1
	})
	locktest.Free(t, b, first)
	if _, err := pause.ExecContext(within(t, patience), "do release_lock('pause')"); err != nil {
		t.Fatal(err)
	}
	<-renewed
	if err := answers[second]; err != nil && time.Since(begun) < sqlqueue.Fresh {
		t.Error(err)
	}
	locktest.Free(t, b, second)
}

// A waiter that asks stays in the queue for longer than the time between two rounds of asking, however short its TTL.
func TestPollingWithShortTTL(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	held := acquire(t, openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), "x")
	ctx, cancel := context.WithCancel(t.Context())
	waiter := locktest.Begin(ctx, openDSN(t, server.DSN(), locker.WithTTL(locker.MinTTL), WithPolling(sqlqueue.PollEvery)), "x")
	eventually.Is(t, "it waits", func() bool {
		return ask[int](t, admin, "select count(*) from locker.claim where token is null and expires > "+now+" + 500000") == 1
	})
	cancel()
	<-waiter.Done
	release(t, held)
}

// A claim whose row turns out to be over is in the queue again when the answer says that it waits.
func TestWaitsHasARow(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	held := acquire(t, openDSN(t, server.DSN()), "x")
	for range 2 { // nobody listens by that number
		do(t, admin, "call locker.acquire('x', unhex(md5('id')), 1, 1, 0, 3600000, '', 9223372036854775807, true, 4711)")
		if n := ask[int](t, admin, "select count(*) from locker.claim where token is null"); n != 1 {
			t.Errorf("%d wait", n)
		}
	}
	release(t, held)
}

// Whoever waits behind one that polls looks when that one is over, if it polls no more.
func TestLooksWhenPollingWaiterIsOver(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	held := acquire(t, openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), "x")
	wait := func(id string, ttl time.Duration) time.Duration {
		return claim(t, admin, "x", id, 1, 1, ttl, sql.NullInt64{})
	}
	wait("polls", 30*time.Minute)
	do(t, admin, "update locker.claim set expires = expires - 1200000000 where token is null")
	if look := wait("looks", time.Hour); look > 10*time.Minute {
		t.Errorf("it looks after %v", look)
	}
	release(t, held)
}

// Those behind a waiter that listens look when it would be over, had it been granted the name and died: a second earlier if it is
// only the waiter that keeps them, because the server takes as long to notice. A poll does not move its end.
func TestLooksBehindOneThatListens(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	listens, err := admin.Conn(within(t, 3*time.Minute))
	must(t, err)
	defer listens.Close()
	_, err = listens.ExecContext(within(t, patience), "do get_lock('locker.4711', 0)")
	must(t, err)
	hour := locker.WithTTL(time.Hour)
	l := openDSN(t, server.DSN(), hour)
	for name, hold := range map[string][]locker.AcquireOption{"shared": {locker.Shared()}, "exclusive": nil} {
		held := acquire(t, l, name, hold...)
		claim(t, admin, name, name+" listens", 2147483647, 2147483647, 10*time.Minute, sql.NullInt64{Int64: 4711, Valid: true})
		want := 10 * time.Minute
		if hold != nil {
			want -= time.Second
		}
		if end := claim(t, admin, name, "behind "+name, 1, 2147483647, 10*time.Minute, sql.NullInt64{}); end != want {
			t.Errorf("%s: it looks after %v, want %v", name, end, want)
		}
		do(t, admin, "update locker.claim set expires = expires - 540000000 where listener = 4711")
		before := ask[int64](t, admin, "select expires from locker.claim where listener = 4711")
		do(t, admin, fmt.Sprintf("call locker.hear(concat(unhex(md5('%s listens')), unhex('00')), 0, 1)", name))
		if after := ask[int64](t, admin, "select expires from locker.claim where listener = 4711"); after != before {
			t.Errorf("%s: a poll moved its end by %d", name, after-before)
		}
		do(t, admin, "delete from locker.claim where token is null")
		release(t, held)
	}
}

// Inspect shows what others have done since, also in a session that is always in a transaction.
func TestInspectWithoutAutocommit(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	db := newPool(t, server.DSN()+"?autocommit=0")
	db.SetMaxOpenConns(1)
	l, other := openOn(t, db), openDSN(t, server.DSN())
	release(t, acquire(t, other, "x"))
	for _, want := range []int{0, 1} {
		all, err := locker.Inspect(within(t, patience), l, "x")
		names := 0
		for _, err := range locker.Names(within(t, patience), l, "") {
			if err != nil {
				t.Error(err)
			}
			names++
		}
		if err != nil || len(all) != want || names != want {
			t.Errorf("%v, %d names, %v; want %d", all, names, err, want)
		}
		if want == 0 {
			defer release(t, acquire(t, other, "x"))
		}
	}
}

func do(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(within(t, patience), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
