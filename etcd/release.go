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
	cs := stateOf(c)
	return b.ended(cs, b.change(ctx, cs, clientv3.OpDelete(cs.key)))
}

// Linger puts the key under a lease of its own, which nobody renews. The key keeps its
// create revision, and with it its place.
func (b *backend) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	cs := stateOf(c)
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

// Lighten writes the value with the smaller weight. The key keeps its create revision, and
// with it its place and its token.
func (b *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	cs := stateOf(c)
	lighter := *cs
	lighter.weight = weight
	err := insist(ctx, func() error {
		return b.change(ctx, cs, clientv3.OpPut(cs.key, lighter.value(cs.how), clientv3.WithIgnoreLease()))
	})
	if err == nil {
		cs.weight = weight
	}
	return err
}

// change carries out op if the key of cs is the one that was granted; otherwise it
// returns ErrGone.
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

// ended takes in the outcome of a request to end the holding of cs. When the key is gone
// after an earlier one without an answer, that one has done it.
func (b *backend) ended(cs *claimState, err error) error {
	switch gone := errors.Is(err, driver.ErrGone); {
	case err == nil || gone:
		b.forget(cs)
		if gone && cs.asked {
			return nil
		}
	case !answered(err):
		cs.asked = true
	}
	return err
}

// Abandon deletes the key if it is that of the claim, whatever became of it, after it has
// made sure that no request of the claim that is still on its way will put it.
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	cs := stateOf(c)
	if cs == nil {
		return nil // nothing was ever asked
	}
	err := b.settle(ctx, cs)
	if errors.Is(err, rpctypes.ErrNoSpace) {
		// The barrier cannot be moved until there is space, but the name can be freed.
		now := *cs
		now.late = false
		if b.settle(ctx, &now) == nil {
			_ = b.remove(ctx, &now)
		}
	}
	if err == nil {
		err = b.remove(ctx, cs)
	}
	switch {
	case errors.Is(err, errClientClosed):
		// Nothing of this Locker can arrive any more, nor be asked for: what is left goes
		// with the session's lease, which nobody renews.
		return nil
	case err == nil:
		b.forget(cs)
	}
	return err
}

// remove deletes the key of cs if it is there.
func (b *backend) remove(ctx context.Context, cs *claimState) error {
	if cs.rev == 0 {
		return nil
	}
	err := b.change(ctx, cs, clientv3.OpDelete(cs.key))
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}
