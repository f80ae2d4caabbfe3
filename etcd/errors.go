package etcd

import (
	"errors"
	"fmt"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// errSilence is returned when a server took a request and said nothing more.
	errSilence = errors.New("no answer from the server")
	// errClientClosed is returned when the user's client was closed before the Locker.
	errClientClosed = fmt.Errorf("%w: the client is closed", driver.ErrRefused)
	// errSessionGone is returned when the server said that the session's lease is gone.
	errSessionGone = errors.New("the session's lease is gone")
	// errPlaceGone is returned when the key of a waiter is gone although its lease is not.
	errPlaceGone = errors.New("the key in the queue is gone")
	// errPutRefused is returned when a put met a barrier that has moved, or a key of
	// somebody else. It is made again at once.
	errPutRefused = errors.New("the barrier has moved")
	// errWatchEnded is returned when a watch has ended: what it would have told has to be read.
	errWatchEnded = errors.New("the watch has ended")
	// errRevision is returned when create revisions have grown beyond what a token holds.
	errRevision = fmt.Errorf("%w: the revision needs more than 53 bits", driver.ErrRefused)
)

// answered reports whether err is the answer of a server that has dealt with the
// request, so that no effect of it can follow. What etcd calls unavailable
// (timeouts, a change of the leader) may still come to pass, except that a server
// without a leader has not taken it at all.
func answered(err error) bool {
	var e rpctypes.EtcdError
	return errors.As(err, &e) && (e.Code() != codes.Unavailable || errors.Is(err, rpctypes.ErrNoLeader))
}

// refused reports whether no repetition will mend err, of a request.
func refused(err error) bool {
	var e rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &e) {
		code = e.Code()
	}
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented, codes.FailedPrecondition:
		return !errors.Is(err, rpctypes.ErrAuthOldRevision) // the permissions have changed meanwhile
	}
	return false
}

// lasting reports whether an acquisition is to return err, rather than to go on.
func lasting(err error) bool {
	return errors.Is(err, driver.ErrRefused) || errors.Is(err, rpctypes.ErrNoSpace)
}
