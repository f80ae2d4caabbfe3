package locktest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/mustfail"
)

func TestIdle(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	Must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	const each = 10 * time.Millisecond
	idle(t, 0.5, 100, each, []int{cmd.Process.Pid})
	if text, failed := mustfail.Run(t, func(t testing.TB) { idle(t, -1, 2, each, []int{os.Getpid()}) }); !failed || !strings.Contains(text, "never less") {
		t.Errorf("what is not idle: %q", text)
	}
}
