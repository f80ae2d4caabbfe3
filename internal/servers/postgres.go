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
	"sync"
	"syscall"
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
	return startPostgres(ctx, opts, func(p *Postgres) error { return p.copyTemplate(ctx) })
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
	u, err := otherThanRoot("postgres")
	if err != nil {
		return nil, err
	}
	return retryPorts(func() (*Postgres, error) {
		s, err := newServer("postgres", 1, opts.Args)
		if err != nil {
			return nil, err
		}
		s.user, s.family, s.notEmpty = u, true, "its data is made once"
		p := &Postgres{Server: s, password: opts.Password}
		if err := errors.Join(s.giveAway(), fill(p), p.launch(ctx, bin)); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return p, nil
	})
}

// giveAway lets the user of the server into its folder.
func (s *Server) giveAway() error {
	return errors.Join(os.Chmod(filepath.Dir(s.dir), 0o711), s.user.own(s.dir))
}

func (p *Postgres) launch(ctx context.Context, bin string) error {
	method := "trust"
	if p.password != "" {
		method = "scram-sha-256"
	}
	hba := "local all all trust\nhost all all all " + method + "\nhost replication all all trust\n"
	if err := os.WriteFile(filepath.Join(p.data, "pg_hba.conf"), []byte(hba), 0o644); err != nil {
		return err
	}
	args := []string{"-D", p.data, "-h", host, "-p", p.ports[0].String(), "-k", p.dir}
	for _, set := range postgresSettings {
		args = append(args, "-c", set)
	}
	p.command = func() (string, []string, error) { return bin, slices.Clone(args), nil }
	p.ready = func(ctx context.Context) error { return postgresAnswers(ctx, p.addr) }
	p.requests = p.statements
	if err := startTogether(ctx, p.servers()); err != nil || p.password == "" {
		return err
	}
	return p.tool(ctx, "psql", "-q", "-h", p.dir, "-p", p.ports[0].String(),
		"-c", "alter user postgres password '"+p.password+"'")
}

// postgresTemplate is the folder of a database that initdb has made, which takes seconds, once for all
// servers of this process.
var postgresTemplate = sync.OnceValues(func() (string, error) {
	u, err := otherThanRoot("postgres")
	if err != nil {
		return "", err
	}
	dir, err := newDir("initdb")
	if err != nil {
		return "", err
	}
	s := &Server{dir: dir, user: u}
	if err := s.giveAway(); err != nil {
		return "", err
	}
	data := filepath.Join(dir, "data")
	err = (&Postgres{Server: s}).tool(context.Background(),
		"initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8")
	return data, err
})

func (p *Postgres) copyTemplate(ctx context.Context) error {
	from, err := postgresTemplate()
	if err != nil {
		return err
	}
	return p.run(exec.CommandContext(ctx, "cp", "-R", from, p.data))
}

// tool runs a program of PostgreSQL as the user of the server.
func (p *Postgres) tool(ctx context.Context, name string, args ...string) error {
	bin, err := postgresProgram(name)
	if err != nil {
		return err
	}
	return p.run(exec.CommandContext(ctx, bin, args...))
}

// run runs a program as the user of the server, in its folder.
func (s *Server) run(cmd *exec.Cmd) error {
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user.credential()}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, bytes.TrimSpace(out))
	}
	return nil
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
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
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

// StartPgBouncer starts a pooler before a server.
func StartPgBouncer(ctx context.Context, p *Postgres) (*PgBouncer, error) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		return nil, fmt.Errorf(`%w: pgbouncer not found: run "make setup"`, ErrMissing)
	}
	u, err := otherThanRoot("postgres")
	if err != nil {
		return nil, err
	}
	return retryPorts(func() (*PgBouncer, error) {
		s, err := newServer("pgbouncer", 1, nil)
		if err != nil {
			return nil, err
		}
		s.user = u
		to, port, _ := net.SplitHostPort(p.addr)
		file, err := s.configure("pgbouncer.ini", []string{
			"[databases]", "postgres = host=" + to + " port=" + port + " user=postgres",
			"[pgbouncer]", "listen_addr = " + host, "listen_port = " + s.ports[0].String(), "unix_socket_dir =",
			"auth_type = any", "pool_mode = transaction", "default_pool_size = 20", "max_client_conn = 1000", "server_login_retry = 1",
		})
		s.command = func() (string, []string, error) { return bin, []string{file}, nil }
		s.ready = func(ctx context.Context) error { return postgresAnswers(ctx, s.addr) }
		if err := errors.Join(err, s.giveAway(), s.user.own(file), startTogether(ctx, s.servers())); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return &PgBouncer{s}, nil
	})
}
