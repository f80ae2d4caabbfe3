package replica

import (
	"os/exec"
	"testing"
)

// Newest runs the other tests of the package in the current folder with the newest release of the library, which newest.mod
// names. go.mod names the oldest release that passes them.
func Newest(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the library again")
	}
	cmd := exec.Command("go", "test", "-vet=off", "-modfile=newest.mod", "-skip=^"+t.Name()+"$", ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}
