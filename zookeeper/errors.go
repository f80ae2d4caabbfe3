package zookeeper

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

var (
	// errAgain says that the place in the queue was lost and that all is to be done again.
	errAgain = errors.New("zookeeper: place in the queue lost")

	errDeleted = fmt.Errorf("its node was deleted: %w", zk.ErrNoNode)

	errTooOld = errors.New("the server is older than 3.5.3")

	errTooLong = errors.New("the server hangs up whenever it is sent, as it does with a request that is longer than its jute.maxbuffer")
)

// refusals are what no repetition will mend.
var refusals = []error{
	zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrBadArguments, zk.ErrInvalidPath,
	zk.ErrNoChildrenForEphemerals, errTooLong, errTooOld,
}

// answered are the errors that say that the request was not carried out. After any other, also
// one that the library has no name for, that is not known.
var answered = []error{
	zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrInvalidACL,
	zk.ErrBadArguments, zk.ErrInvalidPath, zk.ErrNoChildrenForEphemerals,
}

func isAny(err error, kinds []error) bool {
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

// wasAnswered reports whether the server has said what came of the request.
func wasAnswered(err error) bool { return err == nil || isAny(err, answered) }

// failed returns err with what was tried. It wraps [driver.ErrRefused] if trying again is in vain.
func failed(what, path string, err error) error {
	if err.Error() == "unknown error: -6" { // the library has no name for it
		err = fmt.Errorf("%w: %w", errTooOld, err)
	}
	if isAny(err, refusals) && !errors.Is(err, driver.ErrRefused) {
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%s %s: %w", what, path, err)
}

// gone returns driver.ErrGone with the reason.
func gone(why error) error { return fmt.Errorf("%w: %w", driver.ErrGone, why) }
