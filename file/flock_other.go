//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package file

import (
	"errors"
	"os"
)

const supported = false

func tryLock(*os.File, bool) (bool, error) { return false, errors.ErrUnsupported }

func isReadOnly(error) bool { return false }
