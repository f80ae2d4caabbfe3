package mysql

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// blockSlot has another session lock the row of a name, as a procedure of another Locker does, only for longer.
func blockSlot(t *testing.T, admin *sql.DB, name string) *sql.Tx {
	t.Helper()
	tx, err := admin.BeginTx(context.Background(), nil)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	var n int
	must(t, tx.QueryRow("select n from locker.slot where n = crc32(?) % 512 for update", []byte(name)).Scan(&n))
	return tx
}

// blocked returns the sessions that wait for the row.
func blocked(t *testing.T, admin *sql.DB) int64 {
	t.Helper()
	return ask[int64](t, admin, `select coalesce(max(id), 0) from information_schema.processlist
		where info like '%from slot where%for update%' and info not like '%processlist%'`)
}

// A statement that is killed while it waits leaves no transaction behind, and is sent again.
func TestKilledStatement(t *testing.T) {
	t.Parallel()
	for _, kill := range []string{"kill query ?", "kill connection ?"} {
		t.Run(kill, func(t *testing.T) {
			server := servers.NewMariaDB(t, servers.MariaDBOptions{})
			admin := newPool(t, server.DSN())
			l := openDSN(t, server.DSN())
			release(t, acquire(t, l, "x"))
			tx := blockSlot(t, admin, "x")
			done := acquireAside(t, l, "x")
			var id int64
			eventually.Is(t, "the statement waits", func() bool { id = blocked(t, admin); return id != 0 })
			do(t, admin, kill, id)
			eventually.Is(t, "another has taken its place", func() bool { next := blocked(t, admin); return next != 0 && next != id })
			must(t, tx.Rollback())
			<-done
			release(t, acquire(t, l, "x"))
		})
	}
}

// A wait for a row that takes too long for the server is taken up again.
func TestLockWaitTimeout(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{Args: []string{"--innodb-lock-wait-timeout=1"}})
	admin := newPool(t, server.DSN())
	l := openDSN(t, server.DSN())
	release(t, acquire(t, l, "x"))
	tx := blockSlot(t, admin, "x")
	done := acquireAside(t, l, "x")
	var first int64
	eventually.Is(t, "the statement waits", func() bool { first = blocked(t, admin); return first != 0 })
	eventually.Is(t, "another has taken its place", func() bool { next := blocked(t, admin); return next != 0 && next != first })
	must(t, tx.Rollback())
	<-done
	release(t, acquire(t, l, "x"))
}

// The victim of a deadlock goes on, and its connection keeps nothing locked.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	l := openDSN(t, server.DSN(), locker.WithTTL(time.Hour))
	held := acquire(t, l, "x")
	tx, err := admin.BeginTx(context.Background(), nil)
	must(t, err)
	defer tx.Rollback()
	// It has changed more rows than a release has, so that it is not the victim.
	for _, s := range []string{
		"create temporary table ballast (x int) engine = InnoDB", "insert into ballast select seq from seq_1_to_1000",
		"update locker.claim set owner = 'y' where name = 'x'",
	} {
		if _, err := tx.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	const bound = 5 * time.Second // after which Release returns, whatever is the case
	released, begun := make(chan error, 1), time.Now()
	go func() { released <- held.Release(within(t, 30*time.Second)) }()
	eventually.Is(t, "the release waits for the row of its claim", func() bool {
		return ask[int](t, admin, "select count(*) from information_schema.processlist where info like 'delete from claim%'") == 1
	})
	var n int
	if err := tx.QueryRow("select n from locker.slot where n = crc32('x') % 512 for update").Scan(&n); err != nil {
		t.Fatal("the test was the victim:", err)
	}
	late := time.Since(begun) > bound
	must(t, tx.Rollback())
	if err := <-released; err != nil && time.Since(begun) < bound {
		t.Error(err)
	}
	if n := ask[int](t, admin, "select variable_value from information_schema.global_status where variable_name = 'Innodb_deadlocks'"); n == 0 && !late {
		t.Error("there was no deadlock")
	}
	release(t, acquire(t, l, "x"))
}

// Waiters whose sleeping connection is killed are woken on the next one.
func TestKilledListener(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	held := acquire(t, openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), "x")
	done := acquireAside(t, openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), "x")
	listener := func() int64 {
		return ask[int64](t, admin, "select coalesce(max(listener), 0) from locker.claim where token is null")
	}
	var first int64
	eventually.Is(t, "the other can be woken", func() bool { first = listener(); return first != 0 })
	do(t, admin, "kill connection ?", ask[int64](t, admin, "select is_used_lock(concat('locker.', ?))", first))
	eventually.Is(t, "it can be woken again", func() bool { next := listener(); return next != 0 && next != first })
	inTime := locktest.Limit(t, promptly)
	release(t, held)
	<-done
	inTime("the grant")
}

// A waiter that was granted the name before the statement began in which its Locker sleeps is told soon, although the
// server forgets to kill that statement.
func TestForgottenKill(t *testing.T) {
	t.Parallel()
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	holder := openDSN(t, server.DSN(), locker.WithTTL(time.Hour))
	release(t, acquire(t, holder, "x"))
	do(t, admin, "drop procedure locker.ring")
	do(t, admin, "create procedure locker.ring(p_number bigint, out answer int) set answer = 1")
	took := make([]time.Duration, 6) // on a machine that is late the release may come too late
	for i := range took {
		held := acquire(t, holder, "x")
		done := acquireAside(t, openDSN(t, server.DSN(), locker.WithTTL(time.Hour)), "x") // its first wait
		eventually.Is(t, "it can be woken", func() bool { return waiting(t, admin) == 1 })
		begun := time.Now()
		release(t, held)
		<-done
		if took[i] = time.Since(begun); took[i] < asleep/2 {
			return
		}
	}
	t.Errorf("granted after %v", took)
}
