package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// errSilence: a server took a request and said nothing more.
	errSilence = errors.New("no answer from the server")
	// errSessionGone: the server said that the session's lease is gone.
	errSessionGone = errors.New("the session's lease is gone")
	// errEntryGone: the key of a waiter is gone although its lease is not.
	errEntryGone = errors.New("the key in the queue is gone")
	// errWatch: a watch has ended; what it would have told has to be read.
	errWatch = errors.New("the watch has ended")
	// errForeign: something not of this Locker is stored under the key meant for a
	// claim.
	errForeign = errors.New("something else is stored under this key")
	// errFence: an acquisition met the fence that another one's cleaning up has
	// moved; see session.
	errFence = errors.New("the fence has moved")
)

// answered reports whether err is the answer of a server that has dealt with the
// request, so that no effect of it can follow. What etcd calls unavailable
// (timeouts, a change of the leader) may still come to pass, except that a server
// without a leader has not taken it at all.
func answered(err error) bool {
	var e rpctypes.EtcdError
	return errors.As(err, &e) && (e.Code() != codes.Unavailable || isNoLeader(err))
}

func isNoLeader(err error) bool { return errors.Is(err, rpctypes.ErrNoLeader) }

// lasting reports whether waiting will not mend err.
func lasting(err error) bool {
	if clientv3.IsConnCanceled(err) && !errors.Is(err, context.Canceled) {
		return true // the client has been closed
	}
	for _, passing := range []error{rpctypes.ErrTooManyRequests, rpctypes.ErrAuthOldRevision, rpctypes.ErrLeaseNotFound, rpctypes.ErrCompacted, rpctypes.ErrFutureRev} {
		if errors.Is(err, passing) {
			return false
		}
	}
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code() != codes.Unavailable
	}
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented:
		return true
	}
	return false
}

// explain adds to the error of an acquisition that got no answer in time what there
// is to say about it. The client waits for a connection without a word, whatever is
// wrong (a certificate, for example), and asks again and again where there is no
// leader; a request that does neither is told the reason at once.
func (b *backend) explain(err error) error {
	if !errors.Is(err, errSilence) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(context.Background()), 40*time.Millisecond)
	defer cancel()
	_, why := pb.NewMaintenanceClient(b.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(false))
	if why == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errSilence, rpctypes.Error(why))
}
