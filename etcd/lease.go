package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaseOwn moves the key of a claim that is not to be renewed from the session's
// lease, under which it has queued, to one of its own, which the server ends by
// itself. The key keeps its create revision, and with it its place and its token.
func (b *backend) leaseOwn(ctx context.Context, e *entry) (driver.Instant, error) {
	if err := b.endLeases(ctx, e); err != nil { // of a try that failed
		return 0, err
	}
	lease, sent, _, err := b.grantLease(ctx, e.claim.TTL)
	if err != nil {
		return 0, err
	}
	e.leases = append(e.leases, lease)
	mine := clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev.Load())
	move := clientv3.OpPut(e.key, e.value(), clientv3.WithLease(lease))
	resp, err := b.txn(ctx, []clientv3.Cmp{mine}, []clientv3.Op{move}, nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return 0, errEntryGone
	case err != nil:
		return 0, fmt.Errorf("move to lease %x: %w", lease, err)
	case !resp.Succeeded:
		return 0, errEntryGone
	}
	return sent.Add(e.claim.TTL), nil
}

// endLeases revokes the entry's own leases, and with them its key if it is there.
func (b *backend) endLeases(ctx context.Context, e *entry) error {
	for len(e.leases) > 0 {
		if err := b.revoke(ctx, e.leases[0]); err != nil {
			return err
		}
		e.leases = e.leases[1:]
	}
	return nil
}
