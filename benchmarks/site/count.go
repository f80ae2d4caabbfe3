package site

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/internal/servers"
)

// Requests returns how many requests of clients the servers handled while f ran, as
// the servers themselves counted: for Redis the commands that MONITOR shows less those
// that scripts call inside, for ZooKeeper the packets that "srvr" has received (the
// pings of sessions among them), for PostgreSQL the statements that pg_stat_statements knows (BEGIN and COMMIT
// among them; a transaction that is one statement counts once), for MariaDB its own count of statements, for etcd the messages received over gRPC
// (keep-alives of leases among them).
//
// MONITOR slows Redis down, so little should be timed in f. The requests of package servers are not counted.
func (s *Site) Requests(ctx context.Context, f func() error) (int64, error) {
	for _, r := range s.Redis {
		defer r.StopCounting()
	}
	return growth(ctx, s.received, f)
}

// received is the sum over all servers; the difference of two calls counts.
func (s *Site) received(ctx context.Context) (int64, error) {
	switch {
	case s.Redis != nil:
		return servers.SumRequests(ctx, s.Redis)
	case s.ZooKeeper != nil:
		return servers.SumRequests(ctx, s.ZooKeeper.Members)
	case s.Etcd != nil:
		return servers.SumRequests(ctx, s.Etcd.Members)
	case s.Postgres != nil:
		return s.Postgres.Requests(ctx)
	case s.MariaDB != nil:
		return s.MariaDB.Requests(ctx)
	}
	return 0, nil
}

// KeepAlives returns how many messages etcd received while f ran that keep a lease alive. ZooKeeper
// does not count the pings of sessions apart: it is 0 there.
func (s *Site) KeepAlives(ctx context.Context, f func() error) (int64, error) {
	return growth(ctx, s.keptAlive, f)
}

func (s *Site) keptAlive(ctx context.Context) (sum int64, err error) {
	if s.Etcd != nil {
		for _, e := range s.Etcd.Members {
			methods, err := e.Methods(ctx)
			if err != nil {
				return 0, err
			}
			sum += methods["Lease/LeaseKeepAlive"]
		}
	}
	return sum, nil
}

// Heartbeat returns how often the clients of a ZooKeeper, all opened with the same TTL, ping it:
// three times within the timeout that it has granted their sessions.
func (s *Site) Heartbeat(ctx context.Context) (time.Duration, error) {
	for _, z := range s.ZooKeeper.Members { // a client may be connected to any of them
		text, err := z.Word(ctx, "cons")
		if err != nil {
			return 0, err
		}
		_, after, _ := strings.Cut(text, ",to=")
		millis, _, _ := strings.Cut(after, ",")
		if timeout, err := strconv.Atoi(millis); err == nil {
			return time.Duration(timeout) * time.Millisecond / 3, nil
		}
	}
	return 0, errors.New("no session that ZooKeeper tells the timeout of")
}

// Notifications returns how many messages the servers sent to clients unasked while f
// ran: for Redis and ZooKeeper what they sent less what they received, for etcd the
// messages on watches less the requests for such. It is right to within the few that
// are on their way.
func (s *Site) Notifications(ctx context.Context, f func() error) (int64, error) {
	n, err := growth(ctx, s.unasked, f)
	return max(0, n), err
}

// growth returns by how much a count grows while f runs.
func growth(ctx context.Context, count func(context.Context) (int64, error), f func() error) (int64, error) {
	before, err := count(ctx)
	if err == nil {
		err = f()
	}
	if err != nil {
		return 0, err
	}
	after, err := count(ctx)
	return after - before, err
}

func (s *Site) unasked(ctx context.Context) (sum int64, err error) {
	for _, r := range s.Redis {
		text, err := redisText(ctx, r, "INFO", "stats")
		if err != nil {
			return 0, err
		}
		sum += number(text, "total_writes_processed:") - number(text, "total_reads_processed:")
	}
	if s.ZooKeeper != nil {
		for _, z := range s.ZooKeeper.Members {
			text, err := z.Word(ctx, "srvr")
			if err != nil {
				return 0, err
			}
			sum += number(text, "Sent:") - number(text, "Received:")
		}
	}
	if s.Etcd != nil {
		const watch = `_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"} `
		for _, e := range s.Etcd.Members {
			text, err := e.Get(ctx, "/metrics")
			if err != nil {
				return 0, err
			}
			sum += number(text, "grpc_server_msg_sent"+watch) - number(text, "grpc_server_msg_received"+watch)
		}
	}
	return sum, nil
}

func redisText(ctx context.Context, r *servers.Redis, command ...string) (string, error) {
	v, err := r.Do(ctx, command...)
	text, _ := v.(string)
	return text, err
}

// field returns the rest of the line that begins with name.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// number returns what field does as a number, 0 if it is none.
func number(text, name string) int64 {
	v, _ := strconv.ParseFloat(field(text, name), 64)
	return int64(v)
}

// Stored returns how much the servers store: keys of Redis and etcd with etcd's leases,
// nodes of ZooKeeper with the watches on them, rows of PostgreSQL and MariaDB, files and folders in a directory.
func (s *Site) Stored(ctx context.Context) (sum int64, err error) {
	for _, r := range s.Redis {
		v, err := r.Do(ctx, "DBSIZE")
		if err != nil {
			return 0, err
		}
		n, _ := v.(int64)
		sum += n
	}
	switch {
	case s.Setup == contender.Directory:
		err := filepath.WalkDir(s.Addrs[0], func(_ string, _ fs.DirEntry, err error) error {
			sum++
			return err
		})
		return sum, err
	case s.ZooKeeper != nil: // every member has all of it
		text, err := s.ZooKeeper.Members[0].Word(ctx, "mntr")
		return number(text, "zk_znode_count") + number(text, "zk_watch_count"), err
	case s.Etcd != nil:
		text, err := s.Etcd.Members[0].Get(ctx, "/metrics")
		return number(text, "etcd_debugging_mvcc_keys_total ") +
			number(text, "etcd_debugging_lease_granted_total ") -
			number(text, "etcd_debugging_lease_revoked_total ") -
			number(text, "etcd_debugging_server_lease_expired_total "), err
	case s.Postgres != nil:
		rows, err := s.Postgres.Query(ctx, postgresRows)
		return number(rows, ""), err
	case s.MariaDB != nil:
		tables, err := s.MariaDB.Query(ctx, "select count(*) from information_schema.tables where table_schema = 'locker'")
		if err != nil || number(tables, "") == 0 {
			return 0, err
		}
		rows, err := s.MariaDB.Query(ctx, "select (select count(*) from locker.claim) + (select count(*) from locker.given_up) + (select count(*) from locker.slot)")
		return number(rows, ""), err
	}
	return sum, nil
}

// postgresRows counts the rows of all tables.
const postgresRows = `select coalesce(sum((xpath('/row/n/text()', query_to_xml(format('select count(*) as n from %I.%I', schemaname, tablename),
	false, true, '')))[1]::text::bigint), 0) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`
