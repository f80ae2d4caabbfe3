//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/seed80cd6120/locker/internal/eventually"
)

// The leader's command that ends by itself resigns, with its status.
func TestLeadEndsWithItsCommand(t *testing.T) {
	url := place(t)
	for status := range 2 {
		start(t, url, "lead", "x", "-c", fmt.Sprintf("exit %d", status)).want(status)
	}
	isFree(t, url, "x")
}

// Who waits to lead does so when the leader ends.
func TestLeadPassesOn(t *testing.T) {
	url := place(t)
	first := start(t, url, "lead", "x", "-c", "echo first leads; exec sleep 1000")
	first.says("first leads")
	second := start(t, url, "lead", "x", "-c", "echo second leads")
	waitsFor(t, url, "x", 1)
	first.signal(syscall.SIGTERM)
	first.want(128 + 15)
	second.want(0)
	second.says("second leads")
}

// After a loss the command is stopped, and runs again when the lead is won again, whatever it was told before.
func TestLeadAfterLoss(t *testing.T) {
	t.Parallel()
	url := place(t)
	line := "trap 'echo got USR1' USR1; trap 'echo got HUP' HUP; echo leads $LOCKER_TOKEN; while :; do sleep 0.1; done"
	p := start(t, url, "lead", "x", "-c", line)
	p.says("leads ")
	for _, signal := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP} {
		p.signal(signal)
		p.says("got " + signalName(signal))
	}
	eventually.Within(t, bound, "there is a holder", func() bool { return len(inspect(t, url, "x").Holders) == 1 })
	token := inspect(t, url, "x").Holders[0].Token
	command(t, url, "break", "x", "--yes", "--token", fmt.Sprint(token))
	eventually.Within(t, bound, "it leads again", func() bool { return strings.Count(p.out.String(), "leads ") == 2 })
	if again := inspect(t, url, "x").Holders[0].Token; again <= token {
		t.Errorf("token %d after %d", again, token)
	}
	if !strings.Contains(p.errs.String(), "campaigning again") {
		t.Errorf("said %q", p.errs.String())
	}
	p.signal(syscall.SIGTERM)
	p.want(128 + 15)
	isFree(t, url, "x")
}

// A signal that comes while the rest of the command is being stopped after a loss ends the campaign, too.
func TestLeadEndsAfterLoss(t *testing.T) {
	t.Parallel()
	server, url := newRedis(t)
	line := "(trap '' TERM; exec sleep 1000) & trap 'exit 0' TERM; echo pid $$; wait"
	p := start(t, url, "lead", "x", "--ttl", "30s", "--grace", "15s", "-c", line)
	first := p.pid("pid ")
	must(t, server.Pause())
	eventually.Within(t, bound, "the first process of the command has ended", func() bool { return !alive(first) })
	p.signal(syscall.SIGTERM)
	must(t, server.Resume())
	p.want(128 + 15)
}
