package servers

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestMariaDB(t *testing.T) {
	ctx := t.Context()
	m := NewMariaDB(t, MariaDBOptions{})
	if err := m.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := mariaDBGreets(short, m.Addr()); err == nil {
		t.Error("a paused server answers")
	}
	if err := errors.Join(m.Resume(), m.WaitReady(ctx)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.client(ctx, "app", "create table kept (x int)"); err != nil {
		t.Fatal(err)
	}
	for _, stop := range []func() error{m.Kill, m.Stop} {
		if err := errors.Join(stop(), m.Restart(ctx)); err != nil {
			t.Error(err)
		}
		if _, err := m.client(ctx, "app", "select * from kept"); err != nil {
			t.Error("after a restart:", err)
		}
	}

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
