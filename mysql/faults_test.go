package mysql

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/faults"
	"github.com/seed80cd6120/locker/internal/servers"
)

// The rows of the fault table in package faults.
var faulty = faults.Backend{
	Name: "mysql", Family: "mysql", TTL: faultsTTL, Death: faultsTTL + time.Second, Offers: faults.Everything,
	Start: startFaulty,
}

const faultsTTL = 2 * time.Second

func init() {
	faults.Register("mysql", func(_ context.Context, a faults.Access) (conformance.Client, error) {
		user := "root"
		if a.User != "" {
			user = a.User + ":" + a.Password
		}
		db, err := sql.Open("mysql", user+"@tcp("+a.Through(a.Addrs[0])+")/app")
		if err != nil {
			return nil, err
		}
		l, err := New(db, a.Options()...)
		return faults.ClientOf(l, err, func() error { go db.Close(); return nil })
	})
}

func startFaulty(t testing.TB) *faults.Servers {
	server := servers.NewMariaDB(t, servers.MariaDBOptions{})
	admin := newPool(t, server.DSN())
	release(t, acquire(t, openOn(t, admin), "first"))
	admin.SetMaxIdleConns(-1) // the client has a goroutine for each, which would be taken for one of a row
	do := func(statement string) func(ctx context.Context, name string) error {
		return func(ctx context.Context, name string) error {
			_, err := admin.ExecContext(ctx, statement, []byte(name))
			return err
		}
	}
	list := func(ctx context.Context, which, name string) (all []string, err error) {
		rows, err := admin.QueryContext(ctx, `select concat(hex(id), ' ', coalesce(token, 'waits')) from locker.claim
			where name = ? and expires > timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) and `+which, []byte(name))
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
		Access:  faults.Access{Kind: "mysql", Addrs: []string{server.Addr()}, TTL: faultsTTL},
		All:     []*servers.Server{server.Server},
		Addrs:   []string{server.Addr()},
		Keeps:   true,
		Destroy: do("delete from locker.claim where name = ? and token is not null"),
		EndSession: func(ctx context.Context, name string, waiters bool) error {
			which := "token is not null"
			if waiters {
				which = "token is null"
			}
			return do("delete from locker.claim where name = ? and "+which)(ctx, name)
		},
		Expire: do(`update locker.claim set expires = timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))
			where name = ? and token is not null`),
		Waiting: func(ctx context.Context, name string) (int, error) {
			all, err := list(ctx, "token is null", name)
			return len(all), err
		},
		Litter: func(ctx context.Context, name string) ([]string, error) { return list(ctx, "true", name) },
	}
}

func TestRows(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	shared := faults.StartOn(t, faulty)
	for _, row := range faults.Rows {
		crash := row.Name == "release-with-servers-dead" || row.Name == "all-restarted"
		applies := len(row.For) == 0 && row.Backend == nil || crash
		if !applies || !faults.Full && !row.Quick {
			continue
		}
		t.Run(row.Title(), func(t *testing.T) { row.Examine(t, shared) })
	}
}

// Eight processes, and faults drawn at random.
func TestCampaign(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	faults.NewCampaign(t, 50, 5_000).Run(t, faults.StartOn(t, faulty))
}
