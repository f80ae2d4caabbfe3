package child

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/locktest"
)

var must = locktest.Must

func TestMain(m *testing.M) {
	Register("echo", func(ctx context.Context, args []byte, parent Parent) error {
		var hello string
		if err := json.Unmarshal(args, &hello); err != nil {
			return err
		}
		parent.Say(hello)
		for line := range parent.Heard {
			parent.Say(line)
		}
		return ctx.Err()
	})
	Register("fail", func(context.Context, []byte, Parent) error {
		return errors.New("nothing works")
	})
	Main()
	os.Exit(m.Run())
}

func start(t *testing.T, role string, args any) *Process {
	t.Helper()
	p, err := Start(role, args)
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func hear(t *testing.T, p *Process, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if line, err := p.Hear(ctx); err != nil || line != want {
		t.Fatalf("heard %q, %v; want %q", line, err, want)
	}
}

func TestConversation(t *testing.T) {
	p := start(t, "echo", "hello")
	hear(t, p, "hello")
	must(t, p.Say("more"))
	hear(t, p, "more")

	must(t, p.Pause(), p.Say("while stopped"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if line, err := p.Hear(ctx); err == nil {
		t.Errorf("a stopped process said %q", line)
	}
	must(t, p.Resume())
	hear(t, p, "while stopped")

	p.Kill()
	if _, err := p.Hear(t.Context()); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("after the kill: %v", err)
	}
}

func TestFailureIsTold(t *testing.T) {
	p := start(t, "fail", nil)
	if _, err := p.Hear(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing works") {
		t.Errorf("%v", err)
	}
}
