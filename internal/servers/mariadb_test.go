package servers

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestMariaDB(t *testing.T) {
	ctx := t.Context()
	m := NewMariaDB(t, MariaDBOptions{})
	must(t, m.Pause())
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := mariaDBGreets(short, m.Addr()); err == nil {
		t.Error("a paused server answers")
	}
	must(t, m.Resume(), m.WaitReady(ctx))
	_, err := m.client(ctx, "app", "create table kept (x int)")
	must(t, err)
	for _, stop := range []func() error{m.Kill, m.Stop} {
		must(t, stop(), m.Restart(ctx))
		if _, err := m.client(ctx, "app", "select * from kept"); err != nil {
			t.Error("after a restart:", err)
		}
	}

	counts(t, m.Server, 4, func() { // the fourth is that the client quits
		_, err := m.client(ctx, "app", "select 1; select 2; select 3")
		must(t, err)
	})

	// It asks for the password that it was given.
	guarded := NewMariaDB(t, MariaDBOptions{Password: "secret"})
	if _, err := guarded.client(ctx, "app", "select 1"); err != nil {
		t.Error("with the password:", err)
	}
	guarded.password = "wrong"
	if _, err := guarded.client(ctx, "app", "select 1"); err == nil {
		t.Error("a wrong password is taken")
	}
}

// A database that is made does not touch the temporary files of servers that run, which are in the same folder by default.
func TestMariaDBLeavesTemporaryFilesAlone(t *testing.T) {
	u, err := otherThanRoot("mysql")
	must(t, err)
	f, err := os.CreateTemp("", "#sql-temptable-*")
	must(t, err)
	defer os.Remove(f.Name())
	must(t, f.Close(), u.own(f.Name()))
	_, err = template("mariadb-install-db", "mysql", installMariaDB)()
	must(t, err)
	if _, err := os.Stat(f.Name()); err != nil {
		t.Error(err)
	}
}
