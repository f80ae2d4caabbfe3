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

	errLate    = errors.New("the server does not open the session")
	errTooLong = errors.New("the server hangs up whenever it is sent, as if it were longer than its jute.maxbuffer")
	errNoToken = fmt.Errorf("no token is left for an epoch beyond %d", maxCzxid>>32)
)

// refusals are what no repetition will mend. After any other error a request may have been carried out.
var refusals = []error{
	zk.ErrNoAuth, zk.ErrAuthFailed, zk.ErrInvalidACL, zk.ErrBadArguments, zk.ErrInvalidPath,
	zk.ErrNoChildrenForEphemerals, errTooLong, errNoToken,
}

func isRefusal(err error) bool {
	return slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) })
}

// failed returns err as the core is told it, nil if err is: with the path that was asked about, as [driver.ErrGone]
// if a claim's node was not there, and as [driver.ErrRefused] if trying again is in vain.
func failed(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		err = fmt.Errorf("%w: its node was deleted: %w", driver.ErrGone, err)
	case isRefusal(err):
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}
