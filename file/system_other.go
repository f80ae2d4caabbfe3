//go:build !linux

package file

import "time"

// now returns the time of day, which all processes of the machine share.
func now() int64 { return time.Now().UnixNano() }

// bootID is not needed where time does not start anew with the machine.
func bootID() (string, error) { return "", nil }
