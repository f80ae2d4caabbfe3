// Package rivals opens the lock libraries that this project is compared with. Each
// is used as its own documentation says; where that leaves a choice, the file of the
// library says which was made and why, and the report repeats it.
//
// The same clients serve the comparison and, behind package suite, the conformance suite.
package rivals

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// All returns the rivals in Go in the order of the report.
func All() []contender.Contender {
	return []contender.Contender{
		redislockContender(),
		rueidislockContender(),
		redsyncContender(1, contender.Usual),
		redsyncContender(5, contender.Usual),
		redsyncContender(5, contender.BlackHole),
		zkLockContender(1, contender.Usual),
		zkLockContender(1, contender.NoSync),
		zkLockContender(3, contender.Usual),
		etcdMutexContender(1),
		etcdMutexContender(3),
		pglockContender(),
	}
}

// Extender is a holding that lives on only if its caller says so again and again.
type Extender interface {
	Extend(ctx context.Context, ttl time.Duration) error
}

// name puts the number of servers behind the name of a library.
func name(family string, s contender.Setup) string {
	return family + s.String()[len(s.Service):]
}
