package servers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// PostgresOptions say how a PostgreSQL server is to be started. The zero value is a server that
// trusts everybody and does not wait for the disk: it keeps its data when it is killed, but not when the
// machine fails.
type PostgresOptions struct {
	// Args are further arguments of postgres, such as "-c", "work_mem=1MB".
	Args []string
	// Password is asked of clients, all of which are the user "postgres".
	Password string
}

// Postgres is one PostgreSQL server with the database and the superuser "postgres".
type Postgres struct {
	*Server
	password string
}

// postgresSettings are those of every server; a later argument takes the place of an earlier one.
var postgresSettings = []string{
	"fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=500", "max_wal_senders=4",
	"log_checkpoints=off", "shared_preload_libraries=pg_stat_statements",
	"dynamic_shared_memory_type=mmap", // in its folder, which is removed also if the server was killed
}

// URL returns what a client connects with.
func (p *Postgres) URL() string { return postgresURL(p.addr, p.password) }

func postgresURL(addr, password string) string {
	if password != "" {
		password = ":" + password
	}
	return "postgres://postgres" + password + "@" + addr + "/postgres?sslmode=disable"
}

// StartPostgres starts one PostgreSQL server.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	return startPostgres(ctx, opts, func(p *Postgres) error { return p.copyOf(ctx, postgresTemplate) })
}

// StartPostgresStandby starts a server that follows primary, a copy of it as it is now. It serves
// reads until [Postgres.Promote].
func StartPostgresStandby(ctx context.Context, primary *Postgres) (*Postgres, error) {
	if primary.password != "" {
		return nil, errors.New("servers: a standby of a server with a password is not offered")
	}
	return startPostgres(ctx, PostgresOptions{}, func(p *Postgres) error {
		from, port, err := net.SplitHostPort(primary.addr)
		if err != nil {
			return err
		}
		return p.tool(ctx, "pg_basebackup", "-h", from, "-p", port, "-U", "postgres", "-D", p.data,
			"-X", "stream", "-R", "-c", "fast", "--no-sync")
	})
}

// Promote makes a standby a server of its own and returns when it takes writes.
func (p *Postgres) Promote(ctx context.Context) error {
	return p.tool(ctx, "pg_ctl", "promote", "-w", "-D", p.data)
}

// RunSQL runs a file by psql with these variables ("name=value").
func (p *Postgres) RunSQL(ctx context.Context, file string, variables ...string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	args := []string{"-v", "ON_ERROR_STOP=1", "-f", file}
	for _, v := range variables {
		args = append(args, "-v", v)
	}
	_, err = p.psql(ctx, args...)
	return err
}

// Query runs a statement by psql and returns what is answered.
func (p *Postgres) Query(ctx context.Context, statement string) (string, error) {
	return p.psql(ctx, "-c", statement)
}

func (p *Postgres) psql(ctx context.Context, args ...string) (string, error) {
	bin, err := postgresProgram("psql")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, bin, append([]string{"-X", "-q", "-A", "-t", "-d", p.URL()}, args...)...)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c client_min_messages=warning")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("psql: %w\n%s", err, bytes.TrimSpace(exit.Stderr))
	}
	return string(bytes.TrimSpace(out)), err
}

// statements counts those that clients have sent, BEGIN and COMMIT among them, since the server was started in
// order or last crashed. Those that functions run are not counted.
func (p *Postgres) statements(ctx context.Context) (int64, error) {
	n, err := p.psql(ctx, "-c", "create extension if not exists pg_stat_statements",
		"-c", "select coalesce(sum(calls), 0) from pg_stat_statements where query not like '%pg_stat_statements%'")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(n, 10, 64)
}

// startPostgres starts a server whose data fill has made.
func startPostgres(ctx context.Context, opts PostgresOptions, fill func(*Postgres) error) (*Postgres, error) {
	bin, err := postgresProgram("postgres")
	if err != nil {
		return nil, err
	}
	p := &Postgres{password: opts.Password}
	prepare := func(s *Server) error {
		p.Server = s
		s.family, s.notEmpty = true, "its data is made once"
		s.ready = func(ctx context.Context) error { return postgresAnswers(ctx, s.addr) }
		s.requests = p.statements
		args := []string{"-D", s.data, "-h", host, "-p", s.ports[0].String(), "-k", s.dir}
		for _, set := range postgresSettings {
			args = append(args, "-c", set)
		}
		s.command = func() (string, []string, error) { return bin, slices.Clone(args), nil }
		if err := fill(p); err != nil {
			return err
		}
		return p.letIn()
	}
	setUp := func() error {
		if p.password == "" {
			return nil
		}
		return p.tool(ctx, "psql", "-q", "-h", p.dir, "-p", p.ports[0].String(),
			"-c", "alter user postgres password '"+p.password+"'")
	}
	return p, owned{"postgres", "postgres", opts.Args, prepare, setUp}.start(ctx)
}

// letIn writes whom the server lets in.
func (p *Postgres) letIn() error {
	method := "trust"
	if p.password != "" {
		method = "scram-sha-256"
	}
	hba := "local all all trust\nhost all all all " + method + "\nhost replication all all trust\n"
	return os.WriteFile(filepath.Join(p.data, "pg_hba.conf"), []byte(hba), 0o644)
}

// postgresTemplate is the folder of a database that initdb has made.
var postgresTemplate = template("initdb", "postgres", func(s *Server) error {
	return (&Postgres{Server: s}).tool(context.Background(),
		"initdb", "-D", s.data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8")
})

// tool runs a program of PostgreSQL as the user of the server.
func (p *Postgres) tool(ctx context.Context, name string, args ...string) error {
	bin, err := postgresProgram(name)
	if err != nil {
		return err
	}
	return p.run(exec.CommandContext(ctx, bin, args...))
}

// removeSegment removes the shared memory that a server with this data has left if it was killed. The system has 4,096 such
// segments in all, and does not remove them by itself.
func removeSegment(data string) {
	text, _ := os.ReadFile(filepath.Join(data, "postmaster.pid")) // a server that ends in order removes it
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return
	}
	if ids := strings.Fields(lines[6]); len(ids) == 2 { // a key and an id
		_ = exec.Command("ipcrm", "-m", ids[1]).Run()
	}
}

// postgresProgram finds a program of PostgreSQL, which Debian does not put where others are.
func postgresProgram(name string) (string, error) {
	all, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(all) > 0 {
		return all[len(all)-1], nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf(`%w: %s of PostgreSQL not found: run "make setup"`, ErrMissing, name)
	}
	return path, nil
}

// postgresAnswers is one try of beginning a session: the server asks who is there, or lets
// everybody in, only when it serves.
func postgresAnswers(ctx context.Context, addr string) error {
	c, err := dial(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	hello := "\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00"
	hello = string(binary.BigEndian.AppendUint32(nil, uint32(len(hello)+4))) + hello
	if _, err := io.WriteString(c, hello); err != nil {
		return err
	}
	answer := make([]byte, 512)
	n, err := c.Read(answer)
	if err == nil && answer[0] != 'R' {
		err = errors.New(strings.ToValidUTF8(string(answer[:n]), " "))
	}
	return err
}

// PgBouncer is a pooler in transaction mode before one PostgreSQL server.
type PgBouncer struct{ *Server }

// URL returns what a client connects with.
func (b *PgBouncer) URL() string { return postgresURL(b.addr, "") }

// StartPgBouncer starts a pooler before a server. A pooler that ends by itself is started again: PgBouncer 1.18 to 1.20 may end when
// the server answers while a statement is being cancelled (pgbouncer issue 822).
func StartPgBouncer(ctx context.Context, p *Postgres) (*PgBouncer, error) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		return nil, fmt.Errorf(`%w: pgbouncer not found: run "make setup"`, ErrMissing)
	}
	b := &PgBouncer{}
	prepare := func(s *Server) error {
		b.Server, s.respawn = s, true
		to, port, _ := net.SplitHostPort(p.addr)
		file, err := s.configure("pgbouncer.ini", []string{
			"[databases]", "postgres = host=" + to + " port=" + port + " user=postgres",
			"[pgbouncer]", "listen_addr = " + host, "listen_port = " + s.ports[0].String(), "unix_socket_dir =",
			"auth_type = any", "pool_mode = transaction", "default_pool_size = 20", "max_client_conn = 1000", "server_login_retry = 1",
		})
		s.command = func() (string, []string, error) { return bin, []string{file}, nil }
		s.ready = func(ctx context.Context) error { return postgresAnswers(ctx, s.addr) }
		return errors.Join(err, s.user.own(file))
	}
	return b, owned{"pgbouncer", "postgres", nil, prepare, nil}.start(ctx)
}
