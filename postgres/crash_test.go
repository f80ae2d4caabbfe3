package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/servers"
)

// A crash empties the tables. Nobody is granted anything before all that held something must know that
// it is lost, and tokens go on rising.
func TestCrashGrantsNothingForTheLongestTTL(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	const ttl = 4 * time.Second
	a, b := openURL(t, server.URL(), locker.WithTTL(ttl)), openURL(t, server.URL(), locker.WithTTL(time.Second))
	// One that is as good as stopped in its tracks: nobody tells it of the loss.
	proxy, url := front(t, server.Addr())
	frozen := openURL(t, url, locker.WithTTL(ttl))
	held := acquire(t, frozen, "x")
	first := acquire(t, a, "y")
	proxy.Freeze()
	kept := time.Now()
	must(t, server.Kill())
	must(t, server.Restart(t.Context()))

	<-first.Context().Done()
	if err := context.Cause(first.Context()); !errors.Is(err, locker.ErrLost) {
		t.Errorf("the holder was told %v", err)
	}
	if _, err := b.TryAcquire(within(t, 10*time.Second), "x"); held.Context().Err() == nil && err == nil {
		t.Error("a try was granted what another holds")
	}
	next := acquire(t, b, "x")
	if held.Context().Err() == nil {
		t.Errorf("granted %v after the other was last heard of, while it holds the name", time.Since(kept))
	}
	if next.Token() <= held.Token() || next.Token() <= first.Token() {
		t.Errorf("token %d after %d and %d", next.Token(), held.Token(), first.Token())
	}
	_ = next.Release(within(t, patience)) // a late machine may have lost it, with a TTL that is short
	proxy.Cut()
}

// After a crash with a clock that was ahead, nothing is granted for the longest TTL, not until that time by that clock.
func TestCrashWithAClockAhead(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	l := openURL(t, server.URL())
	release(t, acquire(t, l, "x"))
	if _, err := newPool(t, server.URL()).Exec(t.Context(), "update locker.epoch set quiet_until = clock_timestamp() + interval '2 hours', quiet_for = interval '1 second'"); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, l, "x"))
}

// A restart in order keeps everything, also in unlogged tables.
func TestRestartInOrderKeepsLocks(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	a, b := openURL(t, server.URL(), locker.WithTTL(time.Minute)), openURL(t, server.URL())
	held := acquire(t, a, "x")
	must(t, errors.Join(server.Stop(), server.Restart(t.Context())))
	if _, err := b.TryAcquire(within(t, patience), "x"); !errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("another was answered %v", err)
	}
	release(t, held)
	next := acquire(t, b, "x")
	if next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
	release(t, next)
}

// Tokens go on rising when a dump is restored that is older than the last of them, although the server was not started anew.
func TestRestoredDump(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Skip(err)
	}
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	l := openURL(t, server.URL(), locker.WithTTL(5*time.Second)) // for so long nothing is granted afterwards
	_ = acquire(t, l, "x").Release(within(t, patience))          // a late machine may have lost it
	dump := filepath.Join(t.TempDir(), "dump.sql")
	if out, err := exec.Command(program, "-n", "locker", "-f", dump, server.URL()).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	last := acquire(t, l, "x")
	_ = last.Release(within(t, patience))
	if _, err := newPool(t, server.URL()).Exec(t.Context(), "drop schema locker cascade"); err != nil {
		t.Fatal(err)
	}
	must(t, server.RunSQL(t.Context(), dump))
	next := acquire(t, l, "x")
	if next.Token() <= last.Token() {
		t.Errorf("token %d after %d", next.Token(), last.Token())
	}
	_ = next.Release(within(t, patience))
}

// Waiters wait while the server crashes, again and again, and go on.
func TestWaitersSurviveCrashes(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprint("durable=", durable), func(t *testing.T) {
			t.Parallel()
			server := servers.NewPostgres(t, servers.PostgresOptions{})
			opts := []locker.Option{locker.WithTTL(2 * time.Second)}
			if durable {
				opts = append(opts, Durable())
			}
			a, b := openURL(t, server.URL(), opts...), openURL(t, server.URL(), opts...)
			held := acquire(t, a, "x")
			waiting := make(chan error, 1)
			go func() {
				lock, err := b.Acquire(within(t, 5*time.Minute), "x")
				if err == nil && lock.Token() <= held.Token() {
					err = fmt.Errorf("token %d after %d", lock.Token(), held.Token())
				}
				waiting <- err
			}()
			for range 3 {
				must(t, errors.Join(server.Kill(), server.Restart(t.Context())))
			}
			_ = held.Release(within(t, 20*time.Second))
			if err := <-waiting; err != nil {
				t.Error(err)
			}
		})
	}
}

// A standby that never saw the lock takes over.
func TestFailoverToStandbyThatHadNotSeenTheLock(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprint("durable=", durable), func(t *testing.T) {
			t.Parallel()
			opts := []locker.Option{locker.WithTTL(5 * time.Second)} // which a late machine keeps
			if durable {
				opts = append(opts, Durable())
			}
			primary := servers.NewPostgres(t, servers.PostgresOptions{})
			before := openURL(t, primary.URL(), opts...)
			release(t, acquire(t, before, "before")) // the schema has to be there
			standby := servers.NewPostgresStandby(t, primary)
			caughtUp(t, primary)
			if err := standby.Pause(); err != nil { // from now on it sees nothing
				t.Fatal(err)
			}
			var held *locker.Lock
			for range 100 { // far beyond what the sequence of the standby has in reserve
				if held != nil {
					release(t, held)
				}
				held = acquire(t, before, "x")
			}
			must(t, errors.Join(primary.Kill(), standby.Resume(), standby.Promote(t.Context())))
			after := openURL(t, standby.URL(), opts...)
			next := acquire(t, after, "x")
			if next.Token() <= held.Token() {
				t.Errorf("token %d after %d", next.Token(), held.Token())
			}
			if !durable && held.Context().Err() == nil {
				t.Error("two holders")
			}
			release(t, next)
		})
	}
}

// caughtUp waits until the standby has all that there is.
func caughtUp(t *testing.T, primary *servers.Postgres) {
	t.Helper()
	admin := newPool(t, primary.URL())
	eventually.Is(t, "the standby has caught up", func() bool {
		return ask[bool](t, admin, "select coalesce(bool_and(replay_lsn >= pg_current_wal_lsn()), false) from pg_stat_replication")
	})
}

// A pool that is led to a standby waits until that is promoted.
func TestStandbyIsWaitedFor(t *testing.T) {
	t.Parallel()
	primary := servers.NewPostgres(t, servers.PostgresOptions{})
	release(t, acquire(t, openURL(t, primary.URL(), locker.WithTTL(5*time.Second)), "x"))
	standby := servers.NewPostgresStandby(t, primary)
	l := openURL(t, standby.URL())
	if _, err := l.TryAcquire(within(t, patience), "x"); err == nil || errors.Is(err, locker.ErrNotAcquired) {
		t.Errorf("a standby answered %v", err)
	}
	done := make(chan error, 1)
	go func() {
		lock, err := l.Acquire(within(t, time.Minute), "x")
		if err == nil {
			err = lock.Release(within(t, patience))
		}
		done <- err
	}()
	must(t, errors.Join(primary.Kill(), standby.Promote(t.Context())))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// All processes of the server stop for longer than the locks last.
func TestServerStalls(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	a, b := openURL(t, server.URL(), locker.WithTTL(time.Second)), openURL(t, server.URL(), locker.WithTTL(time.Second))
	held := acquire(t, a, "x")
	waiting := make(chan error, 1)
	go func() {
		_, err := b.Acquire(within(t, time.Minute), "x")
		if err == nil && held.Context().Err() == nil {
			err = errors.New("two holders")
		}
		waiting <- err
	}()
	must(t, server.Pause())
	<-held.Context().Done() // counted on the holder's clock
	must(t, server.Resume())
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

// The server ends all connections again and again, in whatever calls they are: calls go on, nobody holds what
// another holds, and no lock is lost.
func TestTerminatedConnections(t *testing.T) {
	t.Parallel()
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin := newPool(t, server.URL())
	release(t, acquire(t, openOn(t, admin), "first"))
	terminate := func() {
		if _, err := admin.Exec(within(t, patience), `select pg_terminate_backend(pid) from pg_stat_activity
			where application_name = 'victim' and backend_type = 'client backend'`); err != nil {
			t.Error(err)
		}
	}
	var (
		workers sync.WaitGroup
		holders atomic.Int32
		last    atomic.Int64
	)
	for range 4 {
		pool := newPool(t, server.URL(), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "victim" })
		l := openOn(t, pool)
		workers.Go(func() {
			for i := range 20 {
				lock, err := l.Acquire(within(t, time.Minute), "x")
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				if holders.Add(1) > 1 {
					t.Error("two holders")
				}
				if before := last.Swap(lock.Token()); lock.Token() <= before {
					t.Errorf("token %d after %d", lock.Token(), before)
				}
				if i%2 == 0 {
					terminate()
				}
				if err := lock.Context().Err(); err != nil {
					t.Errorf("lost: %v", context.Cause(lock.Context()))
				}
				holders.Add(-1)
				if err := lock.Release(within(t, time.Minute)); err != nil {
					t.Errorf("release: %v", err)
				}
				if i%3 == 0 {
					terminate()
				}
			}
		})
	}
	workers.Wait()
	eventually.Is(t, "nothing is left", func() bool { return ask[int](t, admin, "select count(*) from locker.claim") == 0 })
}

// The disk is full: a durable lock cannot be taken, the error says why, and what is held is released once there
// is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	small := filepath.Join(server.Dir(), "small")
	must(t, os.Mkdir(small, 0o700))
	var owner syscall.Stat_t
	must(t, syscall.Stat(server.Dir(), &owner))
	how := fmt.Sprintf("size=4m,uid=%d", owner.Uid)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", how, "tmpfs", small).CombinedOutput(); err != nil {
		t.Skipf("no file system can be mounted here: %v %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", small).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	admin := newPool(t, server.URL(), func(c *pgxpool.Config) { c.MaxConns = 1 })
	if _, err := admin.Exec(t.Context(), "create tablespace small location '"+small+"'", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	inSmall := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_tablespace"] = "small" }
	l := openOn(t, newPool(t, server.URL(), inSmall), locker.WithTTL(time.Minute))
	held := acquire(t, l, "held")
	if _, err := admin.Exec(t.Context(), "create table filler (t text) tablespace small"); err != nil {
		t.Fatal(err)
	}
	for {
		_, err := admin.Exec(t.Context(), "insert into filler select repeat('x', 6000) from generate_series(1, 20)")
		if code(err) == "53100" {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var failed error
	for i := range 2000 { // there is some room in pages that exist
		if _, failed = l.TryAcquire(within(t, patience), fmt.Sprintf("%d/%s", i, strings.Repeat("n", 1000))); failed != nil {
			break
		}
	}
	if code(failed) != "53100" {
		t.Errorf("with the disk full: %v", failed)
	}
	if held.Context().Err() != nil {
		t.Error("what is held was lost")
	}
	release(t, held)
	if _, err := admin.Exec(t.Context(), "drop table filler"); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, l, "afterwards"))
}
