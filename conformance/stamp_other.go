//go:build !linux

package conformance

import "time"

// stamp is a moment on a clock that all processes of this machine share.
func stamp() int64 { return time.Now().UnixNano() }
