package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The rows of the fault table in package faults. Those about a crash are run on logged tables: on the others it
// takes what is held, see crash_test.go.
var (
	faulty        = faultyBackend("postgres", DefaultSchema)
	faultyDurable = faultyBackend("postgres-durable", DefaultDurableSchema, Durable())
)

const faultsTTL = 2 * time.Second

func faultyBackend(kind, schema string, opts ...locker.Option) faults.Backend {
	faults.Register(kind, func(ctx context.Context, a faults.Access) (conformance.Client, error) {
		user := "postgres"
		if a.User != "" {
			user = a.User + ":" + a.Password
		}
		pool, err := pgxpool.New(ctx, fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", user, a.Through(a.Addrs[0])))
		if err != nil {
			return nil, err
		}
		l, err := New(pool, append(a.Options(), opts...)...)
		return faults.ClientOf(l, err, func() error { go pool.Close(); return nil })
	})
	return faults.Backend{
		Name: kind, Family: "postgres", TTL: faultsTTL, Death: faultsTTL + time.Second, Offers: faults.Everything,
		Start: func(t testing.TB) *faults.Servers {
			server := servers.NewPostgres(t, servers.PostgresOptions{})
			admin := newPool(t, server.URL())
			release(t, acquire(t, openOn(t, admin, opts...), "first"))
			list := func(ctx context.Context, query, name string) (all []string, err error) {
				rows, err := admin.Query(ctx, "select format('%s %s', id, token) from "+schema+".claim where name = $1 and until > clock_timestamp() and "+query, []byte(name))
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
			}
			return &faults.Servers{
				Access: faults.Access{Kind: kind, Addrs: []string{server.Addr()}, TTL: faultsTTL},
				All:    []*servers.Server{server.Server},
				Addrs:  []string{server.Addr()},
				Keeps:  schema == DefaultDurableSchema,
				Destroy: func(ctx context.Context, name string) error {
					_, err := admin.Exec(ctx, "delete from "+schema+".claim where name = $1 and token is not null", []byte(name))
					return err
				},
				EndSession: func(ctx context.Context, name string, waiters bool) error {
					_, err := admin.Exec(ctx, "delete from "+schema+".claim where name = $1 and (token is null) = $2", []byte(name), waiters)
					return err
				},
				Expire: func(ctx context.Context, name string) error {
					_, err := admin.Exec(ctx, "update "+schema+".claim set until = clock_timestamp() where name = $1 and token is not null", []byte(name))
					return err
				},
				Waiting: func(ctx context.Context, name string) (int, error) {
					all, err := list(ctx, "token is null", name)
					return len(all), err
				},
				Litter: func(ctx context.Context, name string) ([]string, error) { return list(ctx, "true", name) },
			}
		},
	}
}

func TestRows(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	for _, b := range []faults.Backend{faulty, faultyDurable} {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			shared := faults.StartOn(t, b)
			for _, row := range faults.Rows {
				crash := row.Name == "release-with-servers-dead" || row.Name == "all-restarted"
				applies := len(row.For) == 0 && row.Backend == nil && b.Name == "postgres" || crash && shared.Keeps
				if !applies || !faults.Full && !row.Quick {
					continue
				}
				t.Run(row.Title(), func(t *testing.T) { row.Examine(t, shared) })
			}
		})
	}
}

// Eight processes, and faults drawn at random. On logged tables, because servers are killed.
func TestCampaign(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	faults.NewCampaign(t, 50, 5_000).Run(t, faults.StartOn(t, faultyDurable))
}
