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
	if cs == nil || cs.rev == 0 {
		return driver.ErrGone
	}
	return b.ended(ctx, cs, 0, b.change(ctx, cs, clientv3.OpDelete(cs.key)))
}

// Linger puts the key under a lease of its own, which nobody renews.
func (b *backend) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	cs := stateOf(c)
	if cs == nil || cs.rev == 0 {
		return driver.ErrGone
	}
	_, err := b.ownLease(ctx, cs, d)
	return b.ended(ctx, cs, 1, err)
}

// Lighten writes the value with the smaller weight. The key keeps its create revision, and
// with it its place and its token.
func (b *backend) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	cs := stateOf(c)
	if cs == nil || cs.rev == 0 {
		return driver.ErrGone
	}
	lighter := *cs
	lighter.weight = weight
	err := b.change(ctx, cs, clientv3.OpPut(cs.key, lighter.value(cs.how), clientv3.WithIgnoreLease()))
	if err == nil {
		cs.weight = weight
	}
	return err
}

// change carries out op if the key of cs is there; otherwise it returns ErrGone.
func (b *backend) change(ctx context.Context, cs *claimState, op clientv3.Op) error {
	resp, err := b.txn(ctx, []clientv3.Cmp{cs.isThere()}, []clientv3.Op{op}, nil)
	switch {
	case err != nil:
		return fmt.Errorf("change the key: %w", err)
	case !resp.Succeeded:
		return driver.ErrGone
	}
	return nil
}

// ended takes in that the holding of cs has ended, if err says so, and revokes the leases
// of cs but for the newest keep of them.
func (b *backend) ended(ctx context.Context, cs *claimState, keep int, err error) error {
	gone := errors.Is(err, driver.ErrGone)
	if err != nil && !gone {
		cs.asked = cs.asked || !answered(err)
		return err
	}
	if gone && !cs.asked {
		keep = 0
	}
	if err := b.revokeLeases(ctx, cs, keep); err != nil {
		cs.asked = true // for the key is gone
		return err
	}
	b.forget(cs)
	if gone && !cs.asked {
		return driver.ErrGone
	}
	return nil
}

// Abandon deletes the key if it is that of the claim, whatever became of it, after it has
// made sure that no request of the claim that is still on its way will put it.
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	cs := stateOf(c)
	if cs == nil {
		return nil // nothing was ever asked
	}
	err := b.clear(ctx, cs)
	if errors.Is(err, errClientClosed) {
		// Nothing of this Locker can arrive any more, nor be asked for: what is left goes
		// with the leases, which nobody renews.
		return nil
	}
	if err == nil {
		b.forget(cs)
	}
	return err
}

func (b *backend) clear(ctx context.Context, cs *claimState) error {
	late := cs.late
	err := b.settle(ctx, cs)
	if errors.Is(err, rpctypes.ErrNoSpace) {
		// The barrier cannot be moved until there is space, but the name can be freed.
		cs.late = nil
		if b.settle(ctx, cs) == nil && cs.rev > 0 {
			_ = b.change(ctx, cs, clientv3.OpDelete(cs.key))
		}
		cs.late, cs.unsure = late, true
	}
	if err != nil {
		return err
	}
	if cs.rev > 0 {
		if err := b.change(ctx, cs, clientv3.OpDelete(cs.key)); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
	}
	return b.revokeLeases(ctx, cs, 0)
}
