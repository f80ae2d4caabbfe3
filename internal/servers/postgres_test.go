package servers

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPostgres(t *testing.T) {
	ctx := t.Context()
	p := NewPostgres(t, PostgresOptions{})
	standby := NewPostgresStandby(t, p)
	bouncer := NewPgBouncer(t, p)
	for _, addr := range []string{p.Addr(), standby.Addr(), bouncer.Addr()} {
		if err := postgresAnswers(ctx, addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if err := standby.Promote(ctx); err != nil {
		t.Errorf("promote: %v", err)
	}

	// All processes of a paused server stop, also one that serves a client by now.
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := postgresAnswers(short, p.Addr()); err == nil {
		t.Error("a paused server answers")
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitReady(ctx); err != nil {
		t.Error(err)
	}
	for _, stop := range []func() error{p.Kill, p.Stop} {
		if err := errors.Join(stop(), p.Restart(ctx)); err != nil {
			t.Error(err)
		}
	}

	// It asks for the password that it was given.
	if guarded := NewPostgres(t, PostgresOptions{Password: "secret"}); guarded.URL() == postgresURL(guarded.Addr(), "") {
		t.Error("no password in", guarded.URL())
	}
}
