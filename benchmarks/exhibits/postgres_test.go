package exhibits

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

var must = locktest.Must

// recipes are the exhibits on PostgreSQL, and what is expected of each.
var recipes = []struct {
	name string
	take postgresRecipe
	// afterCut: the next has the lock when the holder's connection was cut. Otherwise nobody ever has.
	afterCut bool
	// connections: each that waits has a connection for itself.
	connections bool
}{
	{"row", insertRow, false, false},
	{"for update", selectForUpdate, true, true},
	{"advisory", advisoryLock, true, true},
}

func using(t *testing.T, server *servers.Postgres, take postgresRecipe) contender.Client {
	t.Helper()
	c, err := postgresExhibit("", "", take).Open(t.Context(), contender.Config{Addrs: []string{server.Addr()}})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// terminate cuts all connections of clients but its own.
func terminate(t *testing.T, admin *pgxpool.Pool) {
	t.Helper()
	_, err := admin.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()")
	must(t, err)
}

// When the connection of a holder is cut, or the holder dies, which is the same to the server, either another
// holds the lock at once, and nothing tells the first; or nobody ever does.
func TestPostgresRecipesAfterACut(t *testing.T) {
	server := servers.NewPostgres(t, servers.PostgresOptions{})
	admin, err := dial.Postgres(t.Context(), server.Addr(), 1)
	must(t, err)
	t.Cleanup(admin.Close)
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			a := using(t, server, r.take)
			held, err := a.Acquire(t.Context(), "x")
			must(t, err)
			if held.Token() != 0 {
				t.Error("there is a token after all")
			}
			if _, tells := held.(contender.Watched); tells {
				t.Error("the holder is told after all")
			}
			terminate(t, admin)
			b := using(t, server, r.take)
			patience := 2 * time.Second // of one that never comes
			if r.afterCut {
				patience = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			next, err := b.Acquire(ctx, "x")
			if (err == nil) != r.afterCut {
				t.Errorf("the next was answered %v", err)
			}
			if err == nil {
				_ = next.Release(t.Context())
			}
		})
	}
}

// Where each that waits has a connection for itself, many that wait keep everybody else from connecting.
func TestPostgresRecipesWithManyWaiters(t *testing.T) {
	server := servers.NewPostgres(t, servers.PostgresOptions{Args: []string{
		"-c", "max_connections=20", "-c", "superuser_reserved_connections=0",
	}})
	for _, r := range recipes {
		if !r.connections {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			eventually.Is(t, "the connections of the one before are gone", func() bool {
				own, err := dial.Postgres(t.Context(), server.Addr(), 1)
				if err != nil {
					return false
				}
				defer own.Close()
				var n int
				err = own.QueryRow(t.Context(), "select count(*) from pg_stat_activity where backend_type = 'client backend'").Scan(&n)
				return err == nil && n == 1
			})
			a := using(t, server, r.take)
			held, err := a.Acquire(t.Context(), "x")
			must(t, err)
			b := using(t, server, r.take)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					for contender.Pause(ctx, 10*time.Millisecond) == nil { // one that cannot connect tries again
						if h, err := b.Acquire(ctx, "x"); err == nil {
							_ = h.Release(t.Context())
							return
						}
					}
				})
			}
			full := false
			for end := time.Now().Add(30 * time.Second); !full && time.Now().Before(end); {
				application, err := dial.Postgres(t.Context(), server.Addr(), 1)
				must(t, err)
				full = application.Ping(t.Context()) != nil
				application.Close()
			}
			if !full {
				t.Error("30 wait, and others can connect")
			}
			cancel()
			all.Wait()
			_ = held.Release(t.Context())
			_ = b.Close()
			_ = a.Close()
		})
	}
}
