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

	errExpired = fmt.Errorf("%w: its session is over: %w", driver.ErrGone, zk.ErrSessionExpired)
	errDeleted = fmt.Errorf("%w: its node was deleted: %w", driver.ErrGone, zk.ErrNoNode)

	errTooLong = errors.New("the server hangs up whenever it is sent, as if it were longer than its jute.maxbuffer")
)

// refusals are what no repetition will mend.
var refusals = []error{
	zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrBadArguments, zk.ErrInvalidPath,
	zk.ErrNoChildrenForEphemerals, errTooLong,
}

func isRefusal(err error) bool {
	return slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) })
}

// isSettled reports whether it is known what came of a request. After an error that is no refusal, also
// one that the library has no name for, it may have been carried out.
func isSettled(err error) bool { return err == nil || errors.Is(err, zk.ErrNoNode) || isRefusal(err) }

// failed returns err with what was tried, nil if err is. It wraps [driver.ErrRefused] if trying again is in vain.
func failed(what, path string, err error) error {
	if err == nil {
		return nil
	}
	if isRefusal(err) {
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%s %s: %w", what, path, err)
}
