package child

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// A child that Stop has stopped does not run any more when Stop returns, also if it was stopped already. One that ends does not
// keep it waiting.
func TestStop(t *testing.T) {
	cmd := exec.Command("bash", "-c", "while :; do :; done")
	cmd.SysProcAttr = Attributes()
	if err := Start(cmd.Start); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	for i := range 300 {
		for range 2 {
			if err := Stop(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(stat, []byte(") T ")) {
			t.Fatalf("stop %d: its state is %s", i, stat)
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := Stop(cmd.Process.Pid); err == nil {
		t.Error("a child that was killed has stopped")
	}
}
