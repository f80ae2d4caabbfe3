package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed80cd6120/locker/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// patience is how long a request may go without an answer at least, and twice as long at most,
// before it is given up and made again, with another member if there is one: when a leader dies,
// what others have passed on to it is lost without a word. etcd itself gives up after 7 s.
// Members are asked in turn; without chance it could be the turn of the same silent one each time.
const patience = time.Second

var (
	// errSilence is returned when a server took a request and said nothing more.
	errSilence      = errors.New("no answer from the server")
	errClientClosed = fmt.Errorf("%w: the client is closed", driver.ErrRefused)
	errSessionGone  = errors.New("the session's lease is gone")
	// errPlaceGone is returned when the key of a waiter is gone although its lease is not.
	errPlaceGone  = errors.New("the key in the queue is gone")
	errWatchEnded = errors.New("the watch has ended")
)

// call makes one request and gives it up, with errSilence, when patience is over.
func call[T any](ctx context.Context, b *backend, do func(ctx context.Context) (T, error)) (resp T, err error) {
	if err := b.usable(ctx); err != nil {
		return resp, err
	}
	inner, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	// Not a deadline, for which the server would set a timer.
	defer time.AfterFunc(b.patience+rand.N(b.patience), func() { cancel(errSilence) }).Stop()
	resp, err = do(inner)
	switch gone := b.usable(ctx); {
	case err == nil:
	case errors.Is(gone, context.DeadlineExceeded):
		err = b.explain(gone)
	case gone != nil:
		err = gone
	case context.Cause(inner) == errSilence:
		b.subscription.restart()
		err = errSilence
		if b.client.ActiveConnection().GetState() == connectivity.TransientFailure {
			err = b.explain(errSilence) // not with a connection: it would take the turn of another member
		}
	case refused(err):
		err = fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return resp, err
}

// insist calls do, and again while that returns errSilence and ctx has not ended, four times at most; it returns what the last
// returned. It is for requests that the core does not make again, and that may be carried out twice.
func insist(ctx context.Context, do func() error) (err error) {
	for range 4 {
		if err = do(); ctx.Err() != nil || !errors.Is(err, errSilence) {
			break
		}
	}
	return err
}

// usable returns why no request can be made: ctx is over, or the client was closed.
func (b *backend) usable(ctx context.Context) error {
	if ctx.Err() == nil && b.client.Ctx().Err() != nil {
		return errClientClosed
	}
	return ctx.Err()
}

// txn makes one transaction.
func (b *backend) txn(ctx context.Context, ifs []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	return call(ctx, b, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return b.client.Txn(ctx).If(ifs...).Then(then...).Else(otherwise...).Commit()
	})
}

// get makes one range request.
func (b *backend) get(ctx context.Context, key string, opts ...clientv3.OpOption) (resp *clientv3.GetResponse, err error) {
	err = insist(ctx, func() error {
		resp, err = call(ctx, b, func(ctx context.Context) (*clientv3.GetResponse, error) { return b.client.Get(ctx, key, opts...) })
		return err
	})
	return resp, err
}

// explain returns why a request had no answer, or err if it cannot tell. The client waits for a
// connection or a leader without a word; a request that does not wait is told the reason at once.
func (b *backend) explain(err error) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(b.life), 40*time.Millisecond)
	defer cancel()
	_, why := pb.NewMaintenanceClient(b.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(false))
	if why == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errSilence, rpctypes.Error(why))
}

// answered reports whether err is the answer of a server that has dealt with the request, so that no effect of it can follow.
// What etcd calls unavailable (timeouts, a change of the leader) may still come to pass, except that a server without a
// leader has not taken it at all. What explain was told is the answer to another request.
func answered(err error) bool {
	var e rpctypes.EtcdError
	return errors.As(err, &e) && !errors.Is(err, errSilence) && (e.Code() != codes.Unavailable || errors.Is(err, rpctypes.ErrNoLeader))
}

// refused reports whether no repetition will mend err, of a request. A precondition that fails may hold later:
// that the cluster has begun ("not capable"), or that its member is no learner.
func refused(err error) bool {
	var e rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &e) {
		code = e.Code()
	}
	switch code {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented:
		return !errors.Is(err, rpctypes.ErrAuthOldRevision) // the permissions have changed meanwhile
	}
	return false
}
