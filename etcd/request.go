package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed80cd6120/locker/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

const (
	// leastPatience is how long a request may go without an answer before it is given up and
	// made again, with another member if there is one: when a leader dies, what others
	// have passed on to it is lost without a word. While a server is slow patience grows
	// with each request given up, and shrinks again with each that is answered quickly.
	leastPatience = 500 * time.Millisecond
	// slowest is what patience grows to. etcd itself gives up after 7 s.
	slowest = 4 * time.Second
)

func (b *backend) patience() time.Duration { return leastPatience + time.Duration(b.slow.Load()) }

// call makes one request and gives it up, with errSilence, when patience is over.
func (b *backend) call(ctx context.Context, do func(ctx context.Context) error) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	inner, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	slow, begun := b.slow.Load(), time.Now()
	// Not a deadline: that would be sent to the server, which sets a timer for it.
	var silent atomic.Bool
	timer := time.AfterFunc(b.patience(), func() { silent.Store(true); cancel() })
	defer timer.Stop()
	err := do(inner)
	switch gone := b.usable(ctx); {
	case err == nil:
		if slow > 0 && time.Since(begun) < leastPatience/2 {
			b.slow.CompareAndSwap(slow, slow/2)
		}
		return nil
	case errors.Is(gone, context.DeadlineExceeded):
		return b.explain(gone)
	case gone != nil:
		return gone
	case silent.Load():
		b.slow.CompareAndSwap(slow, min(2*slow+int64(leastPatience), int64(slowest-leastPatience)))
		b.restartWatches()
		if b.client.ActiveConnection().GetState() == connectivity.TransientFailure {
			return b.explain(errSilence) // not with a connection: it would take the turn of another member
		}
		return errSilence
	case refused(err):
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	return err
}

// insist makes a request again while it is not answered, for some seconds at most. It is for
// requests that the core does not make again, and that may be carried out twice.
func insist(ctx context.Context, request func() error) error {
	for begun := time.Now(); ; {
		err := request()
		if !errors.Is(err, errSilence) || ctx.Err() != nil || time.Since(begun) > 2*slowest {
			return err
		}
	}
}

// usable returns why no request can be made: ctx is over, or the client was closed.
func (b *backend) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.client.Ctx().Err() != nil {
		return errClientClosed
	}
	return nil
}

// txn makes one transaction.
func (b *backend) txn(ctx context.Context, ifs []clientv3.Cmp, then, otherwise []clientv3.Op) (resp *clientv3.TxnResponse, err error) {
	err = b.call(ctx, func(ctx context.Context) (err error) {
		resp, err = b.client.Txn(ctx).If(ifs...).Then(then...).Else(otherwise...).Commit()
		return err
	})
	return resp, err
}

// get makes one range request.
func (b *backend) get(ctx context.Context, key string, opts ...clientv3.OpOption) (resp *clientv3.GetResponse, err error) {
	err = insist(ctx, func() error {
		return b.call(ctx, func(ctx context.Context) (err error) {
			resp, err = b.client.Get(ctx, key, opts...)
			return err
		})
	})
	return resp, err
}

// explain returns what there is to say about a request without an answer, or err. The
// client waits for a connection without a word, whatever is wrong (a certificate, for
// example), and asks again and again where there is no leader; a request that does neither
// is told the reason at once.
func (b *backend) explain(err error) error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(b.life), 40*time.Millisecond)
	defer cancel()
	_, why := pb.NewMaintenanceClient(b.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(false))
	if why == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errSilence, rpctypes.Error(why))
}
