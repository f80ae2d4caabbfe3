package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// MariaDBOptions say how a MariaDB server is to be started. The zero value is a server that does not wait for the
// disk: it keeps its data when it is killed, but not when the machine fails.
type MariaDBOptions struct {
	// Args are further arguments of mariadbd, such as "--wait-timeout=5".
	Args []string
	// Password is asked of clients, all of which are the user "root".
	Password string
}

// MariaDB is one MariaDB server with the superuser "root" and an empty database "app".
type MariaDB struct {
	*Server
	password string
	asked    atomic.Int64 // how often statements were counted
}

// mariaDBSettings are those of every server; a later argument takes the place of an earlier one. The log says why
// a connection or a statement was ended.
var mariaDBSettings = []string{
	"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M",
	"--innodb-undo-tablespaces=0", "--innodb-fast-shutdown=1", "--max-connections=500", "--table-open-cache=200",
	"--skip-name-resolve", "--skip-log-bin", "--performance-schema=off",
}

// DSN returns what a client of go-sql-driver connects with.
func (m *MariaDB) DSN() string {
	password := m.password
	if password != "" {
		password = ":" + password
	}
	return "root" + password + "@tcp(" + m.addr + ")/app"
}

// StartMariaDB starts one MariaDB server. It has a folder of its own for temporary files, and so has mariadb-install-db: a
// server that starts removes those of others.
func StartMariaDB(ctx context.Context, opts MariaDBOptions) (*MariaDB, error) {
	bin, err := mariaDBProgram("mariadbd")
	if err != nil {
		return nil, err
	}
	m := &MariaDB{password: opts.Password}
	prepare := func(s *Server) error {
		m.Server = s
		s.notEmpty = "its data is made once"
		s.ready = func(ctx context.Context) error { return mariaDBGreets(ctx, s.addr) }
		s.requests = m.statements
		s.starting = func() { m.asked.Store(0) }
		args := append([]string{"--no-defaults", "--datadir=" + s.data, "--bind-address=" + host,
			"--port=" + s.ports[0].String(), "--socket=" + m.socket(), "--pid-file=" + filepath.Join(s.dir, "pid"),
			"--tmpdir=" + s.dir}, mariaDBSettings...)
		s.command = func() (string, []string, error) { return bin, slices.Clone(args), nil }
		return s.copyOf(ctx, mariaDBTemplate)
	}
	return m, owned{"mariadb", "mysql", opts.Args, prepare, func() error { return m.setUp(ctx) }}.start(ctx)
}

func (m *MariaDB) socket() string { return filepath.Join(m.dir, "s") }

// setUp makes the empty database, and has root give a password, if there is one, but not on the socket.
func (m *MariaDB) setUp(ctx context.Context) error {
	statements := "create database if not exists app"
	if m.password != "" {
		statements += "; alter user root@'127.0.0.1' identified by '" + m.password + "'"
	}
	bin, err := mariaDBProgram("mariadb")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, bin, "--no-defaults", "-u", "root", "-S", m.socket(), "-e", statements).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("mariadb: %w\n%s", err, out)
	}
	return err
}

// RunSQL runs a file by the client mariadb in a database.
func (m *MariaDB) RunSQL(ctx context.Context, file, database string) error {
	_, err := m.client(ctx, database, "source "+file)
	return err
}

// Query runs a statement in the database "app" and returns what is answered.
func (m *MariaDB) Query(ctx context.Context, statement string) (string, error) {
	return m.client(ctx, "app", statement)
}

// client runs statements by the client mariadb, and returns what is answered, without headings.
func (m *MariaDB) client(ctx context.Context, database, statements string) (string, error) {
	bin, err := mariaDBProgram("mariadb")
	if err != nil {
		return "", err
	}
	to, port, err := net.SplitHostPort(m.addr)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, bin, "--no-defaults", "-N", "-B", "-h", to, "-P", port, "--protocol=tcp",
		"-u", "root", "--password="+m.password, "-e", statements, database).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("mariadb: %w\n%s", err, out)
	}
	return string(out), err
}

// statements counts those that clients have sent since the server was started, and how often they quit; not those that procedures run,
// nor those of counting, each time one and that the client quits.
func (m *MariaDB) statements(ctx context.Context) (int64, error) {
	out, err := m.client(ctx, "app", "show global status like 'Questions'")
	if err != nil {
		return 0, err
	}
	own := 2*m.asked.Add(1) - 1 // it has not quit this time
	_, text, _ := strings.Cut(strings.TrimSpace(out), "\t")
	n, err := strconv.ParseInt(text, 10, 64)
	return n - own, err
}

// mariaDBTemplate is the folder of a database that mariadb-install-db has made.
var mariaDBTemplate = template("mariadb-install-db", "mysql", installMariaDB)

func installMariaDB(s *Server) error {
	bin, err := mariaDBProgram("mariadb-install-db")
	if err != nil {
		return err
	}
	args := append([]string{"--no-defaults", "--datadir=" + s.data, "--tmpdir=" + s.dir, "--skip-test-db",
		"--auth-root-authentication-method=normal"}, mariaDBSettings...)
	return s.run(exec.Command(bin, args...))
}

// mariaDBProgram finds a program of MariaDB, which Debian puts in a folder that only root has in its path.
func mariaDBProgram(name string) (string, error) {
	for _, name := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf(`%w: %s of MariaDB not found: run "make setup"`, ErrMissing, name)
}

// mariaDBGreets is one try of connecting: the server greets clients, by a packet that begins with the version of
// its protocol, only when it serves.
func mariaDBGreets(ctx context.Context, addr string) error {
	c, err := dial(ctx, addr, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	greeting := make([]byte, 5)
	_, err = io.ReadFull(c, greeting)
	if err == nil && greeting[4] != 10 {
		err = errors.New("the server refuses clients")
	}
	return err
}
