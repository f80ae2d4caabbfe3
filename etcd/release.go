package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Release deletes the key if it is the one that was granted.
func (b *backend) Release(ctx context.Context, c *driver.Claim) error {
	cs := c.State.(*claimState)
	return b.ended(cs, b.change(ctx, cs, clientv3.OpDelete(cs.key)))
}

// Linger puts the key under a lease of its own, which nobody renews. The key keeps its
// create revision, and with it its place.
func (b *backend) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	cs := c.State.(*claimState)
	lease, _, err := b.grantLease(ctx, d)
	if err != nil {
		return err
	}
	err = b.change(ctx, cs, clientv3.OpPut(cs.key, cs.value(cs.how), clientv3.WithLease(lease)))
	if errors.Is(err, driver.ErrGone) {
		_ = b.revoke(ctx, lease) // or it ends by itself
	}
	return b.ended(cs, err)
}

// ended makes the key of cs free to be used again if the server said that the holding has ended.
func (b *backend) ended(cs *claimState, err error) error {
	if err == nil || errors.Is(err, driver.ErrGone) {
		b.forget(cs.key)
	}
	return err
}

// Lighten writes the value with the smaller weight. Whatever comes of that, Linger does not write the greater one again: it may
// have been done, and others may have been granted the name since.
func (b *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	cs := c.State.(*claimState)
	cs.weight = min(cs.weight, weight)
	return b.rewrite(ctx, cs)
}

// rewrite writes the value of cs again, and repeats that if it is not answered. The key keeps its create
// revision, and with it its place and its token.
func (b *backend) rewrite(ctx context.Context, cs *claimState) error {
	return insist(ctx, func() error {
		return b.change(ctx, cs, clientv3.OpPut(cs.key, cs.value(cs.how), clientv3.WithIgnoreLease()))
	})
}

// change carries out op if the key of cs is the one that was granted; otherwise it returns ErrGone.
func (b *backend) change(ctx context.Context, cs *claimState, op clientv3.Op) error {
	mine := clientv3.Compare(clientv3.CreateRevision(cs.key), "=", cs.rev)
	resp, err := b.txn(ctx, []clientv3.Cmp{mine}, []clientv3.Op{op}, nil)
	switch {
	case err != nil:
		return fmt.Errorf("change the key: %w", err)
	case !resp.Succeeded:
		return driver.ErrGone
	}
	return nil
}

// Abandon removes what there is of the claim, and what may still come of it.
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	cs, asked := c.State.(*claimState)
	if !asked {
		return nil
	}
	err := b.clear(ctx, cs)
	switch {
	case errors.Is(err, errClientClosed):
		return nil // nothing can arrive any more, and what is left ends with the session's lease
	case err == nil:
		b.forget(cs.key)
	}
	return err
}

// clear deletes the key of cs, if it may exist, and moves the barrier if a request that puts it may still arrive. What clear
// sends may arrive late, too, when the next claim has the key: its value is another. So cs does not put this key again.
func (b *backend) clear(ctx context.Context, cs *claimState) error {
	if cs.rev == 0 && !cs.unsure {
		return nil
	}
	s := cs.session
	mine := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(cs.key), "=", cs.rev)} // also if it lingers
	if cs.rev == 0 {
		value := clientv3.Value(cs.key)
		mine = []clientv3.Cmp{clientv3.Compare(value, "=", cs.value(free)), clientv3.Compare(value, "=", cs.value(queued))}
	}
	var remove []clientv3.Op
	for _, is := range mine {
		remove = append(remove, clientv3.OpTxn([]clientv3.Cmp{is}, []clientv3.Op{clientv3.OpDelete(cs.key)}, nil))
	}
	var barrier []clientv3.Op
	if cs.late && s.gone.Err() == nil {
		barrier = []clientv3.Op{clientv3.OpPut(s.barrier, "", clientv3.WithLease(s.lease))}
	}
	resp, err := b.txn(ctx, nil, append(barrier, remove...), nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		b.endSession(s)
		return b.clear(ctx, cs)
	case errors.Is(err, rpctypes.ErrNoSpace):
		_, _ = b.txn(ctx, nil, remove, nil) // the barrier has to wait, but the name can be freed
		return err
	case err != nil:
		return fmt.Errorf("clean up: %w", err)
	case barrier != nil:
		s.passed.Store(resp.Header.Revision)
	}
	cs.unsure, cs.late = false, false
	return nil
}
