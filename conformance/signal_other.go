//go:build !unix

package conformance

import (
	"errors"
	"os"
)

const canSignal = false

var errNoSignals = errors.New("conformance: this system cannot stop a process")

func suspend(*os.Process) error { return errNoSignals }
func proceed(*os.Process) error { return errNoSignals }
