package site

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
// MONITOR slows Redis down, so nothing should be timed in f.
func (s *Site) Requests(ctx context.Context, f func() error) (int64, error) {
	if s.Setup.Service == contender.Redis {
		return s.redisRequests(ctx, f)
	}
	before, err := s.received(ctx)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := s.received(ctx)
	return after - before, err
}

// received is the sum over all servers since they started.
func (s *Site) received(ctx context.Context) (int64, error) {
	switch {
	case s.ZooKeeper != nil:
		return servers.SumRequests(ctx, s.ZooKeeper.Members)
	case s.Etcd != nil:
		return servers.SumRequests(ctx, s.Etcd.Members)
	case s.Postgres != nil:
		return s.Postgres.Requests(ctx)
	case s.MariaDB != nil:
		return s.questions(ctx)
	}
	return 0, nil
}

func (s *Site) redisRequests(ctx context.Context, f func() error) (int64, error) {
	var taps []*tap
	defer func() {
		for _, t := range taps {
			t.conn.Close()
		}
	}()
	for i := range s.Redis {
		t, err := s.newTap(ctx, i)
		if err != nil {
			return 0, fmt.Errorf("count requests: %w", err)
		}
		taps = append(taps, t)
	}
	if err := f(); err != nil {
		return 0, err
	}
	var sum int64
	for _, t := range taps {
		n, err := t.finish(ctx)
		if err != nil {
			return 0, fmt.Errorf("count requests: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// tap is one MONITOR.
type tap struct {
	site *Site
	node int
	conn net.Conn
	mark string // in the command by which the end is found
	done chan error
	n    int64
}

func (s *Site) newTap(ctx context.Context, node int) (*tap, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.Redis[node].Addr())
	if err != nil {
		return nil, err
	}
	t := &tap{site: s, node: node, conn: conn, mark: rand.Text(), done: make(chan error, 1)}
	r := bufio.NewReader(conn)
	_, err = io.WriteString(conn, "MONITOR\r\n")
	if err == nil {
		_, err = r.ReadString('\n') // +OK
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	go t.read(r)
	return t, nil
}

func (t *tap) read(r *bufio.Reader) {
	for {
		slice, err := r.ReadSlice('\n')
		line := string(slice)
		for err == bufio.ErrBufferFull { // many arguments: the head of the line is enough
			_, err = r.ReadSlice('\n')
		}
		if err != nil {
			t.done <- err
			return
		}
		end, counts := classify(line, t.mark)
		if end {
			t.done <- nil
			return
		}
		if counts {
			t.n++
		}
	}
}

// classify says whether a line of MONITOR is our mark, and whether it is a command that
// a client sent (and not a script).
func classify(line, mark string) (end, counts bool) {
	_, rest, ok := strings.Cut(line, " [")
	where, command, ok2 := strings.Cut(rest, "] ")
	if !ok || !ok2 {
		return false, false
	}
	if strings.Contains(command, mark) {
		return true, false
	}
	return false, !strings.HasSuffix(where, " lua")
}

// finish sends the mark and counts up to it.
func (t *tap) finish(ctx context.Context) (int64, error) {
	if _, err := t.site.Redis[t.node].Do(ctx, "ECHO", t.mark); err != nil {
		return 0, err
	}
	select {
	case err := <-t.done:
		return t.n, err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(10 * time.Second):
		return 0, fmt.Errorf("MONITOR has fallen behind")
	}
}

// KeepAlives returns how many messages etcd has received that keep a lease alive. ZooKeeper
// does not count the pings of sessions apart: it is 0 there.
func (s *Site) KeepAlives(ctx context.Context) (int64, error) {
	var sum int64
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
	before, err := s.unasked(ctx)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := s.unasked(ctx)
	return max(0, after-before), err
}

func (s *Site) unasked(ctx context.Context) (int64, error) {
	var sum int64
	for _, r := range s.Redis {
		v, err := r.Do(ctx, "INFO", "stats")
		if err != nil {
			return 0, err
		}
		text, _ := v.(string)
		sum += number(field(text, "total_writes_processed:")) - number(field(text, "total_reads_processed:"))
	}
	if s.ZooKeeper != nil {
		for _, z := range s.ZooKeeper.Members {
			fields, err := z.Status(ctx)
			if err != nil {
				return 0, err
			}
			sum += number(fields["Sent"]) - number(fields["Received"])
		}
	}
	if s.Etcd != nil {
		for _, e := range s.Etcd.Members {
			body, err := get(ctx, e.Endpoint()+"/metrics")
			if err != nil {
				return 0, err
			}
			sum += watchMessages(string(body), "sent") - watchMessages(string(body), "received")
		}
	}
	return sum, nil
}

// watchMessages is the count of messages on watches in one direction.
func watchMessages(metrics, direction string) int64 {
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "grpc_server_msg_"+direction+"_total{") && strings.Contains(line, `grpc_method="Watch"`) {
			return number(line[strings.LastIndexByte(line, ' ')+1:])
		}
	}
	return 0
}

func number(text string) int64 {
	v, _ := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return int64(v)
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Stored returns how much the servers store: keys of Redis and etcd with etcd's leases,
// nodes of ZooKeeper with the watches on them, rows of PostgreSQL and MariaDB.
func (s *Site) Stored(ctx context.Context) (int64, error) {
	var sum int64
	for _, r := range s.Redis {
		v, err := r.Do(ctx, "DBSIZE")
		if err != nil {
			return 0, err
		}
		n, _ := v.(int64)
		sum += n
	}
	if s.ZooKeeper != nil { // every member has all of it
		text, err := s.ZooKeeper.Members[0].Word(ctx, "mntr")
		if err != nil {
			return 0, err
		}
		sum += number(field(text, "zk_znode_count")) + number(field(text, "zk_watch_count"))
	}
	if s.Postgres != nil {
		v, err := s.postgres(ctx, storedRows)
		return number(v), err
	}
	if s.MariaDB != nil {
		return s.storedInMariaDB(ctx)
	}
	if s.Etcd != nil {
		body, err := get(ctx, s.Etcd.Members[0].Endpoint()+"/metrics")
		if err != nil {
			return 0, err
		}
		text := string(body)
		sum += number(field(text, "etcd_debugging_mvcc_keys_total ")) +
			number(field(text, "etcd_debugging_lease_granted_total ")) -
			number(field(text, "etcd_debugging_lease_revoked_total ")) -
			number(field(text, "etcd_debugging_server_lease_expired_total "))
	}
	return sum, nil
}
