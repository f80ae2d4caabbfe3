package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Release deletes the key if it is the one that was granted. The same transaction
// looks who is the first now, if that may be one that waits in this Locker too: then it
// need not ask. Who followed one of this Locker is likely to be followed by one, even if
// that is not there yet. One of another Locker is marked instead, if there is a habit. To
// look for such a one would be of no use, and costs the server a reading of the whole queue
// before it tells of the deletion; it is done only to learn whom to mark the next time.
func (b *backend) Release(ctx context.Context, c *driver.Claim) error {
	e := own(c)
	if e == nil || e.rev.Load() == 0 {
		return driver.ErrGone
	}
	if !e.deleted {
		err := b.delete(ctx, e)
		if errors.Is(err, driver.ErrGone) && len(e.leases) == 0 {
			b.forget(e)
		}
		if err != nil {
			return err
		}
		e.deleted = true
	}
	if err := b.endLeases(ctx, e); err != nil {
		return err
	}
	b.forget(e)
	return nil
}

func (b *backend) delete(ctx context.Context, e *entry) error {
	err := b.handOver(ctx, e)
	switch {
	case err == errNotNext:
		err = b.deleteOnly(ctx, e)
	case errors.Is(err, rpctypes.ErrNoSpace): // for a mark; it may have been refused only after it was done
		if err = b.deleteOnly(ctx, e); errors.Is(err, driver.ErrGone) {
			return nil
		}
	}
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return b.deletePlain(ctx, e)
	case errors.Is(err, driver.ErrGone):
		return err
	case err != nil:
		return fmt.Errorf("delete: %w", err)
	}
	return nil
}

// deleteOnly deletes the key and nothing else.
func (b *backend) deleteOnly(ctx context.Context, e *entry) error {
	resp, err := b.deleteTxn(ctx, e)
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		return driver.ErrGone
	}
	b.learn(e, b.tell(resp))
	return nil
}

func (b *backend) deleteTxn(ctx context.Context, e *entry) (*clientv3.TxnResponse, error) {
	look := e.expects != "" || e.follows || !b.alone(e)
	if b.directKV != nil && !look {
		return b.direct(ctx, deleteOwn(e))
	}
	mine := clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.rev.Load())
	then := []clientv3.Op{clientv3.OpDelete(e.key)}
	if look {
		then = append(then, firstOf(e.queue))
	}
	return b.txn(ctx, []clientv3.Cmp{mine}, then, nil)
}

// tell lets the claim know that is the first after a transaction whose last
// operation looked, if it is one of this Locker, and returns its key.
func (b *backend) tell(resp *clientv3.TxnResponse) (first string) {
	last := resp.Responses[len(resp.Responses)-1].GetResponseRange()
	for _, kv := range last.GetKvs() {
		first = string(kv.Key)
		b.found(kv)
	}
	return first
}

// deletePlain deletes the key without comparing. While they have no space, etcd before
// 3.4.20 and 3.5.7 refuse every transaction, also one that only deletes, and all
// refuse one that moves the fence; but not this. Nobody else has the key, but should
// the request arrive late the next claim might: then it is not used again.
func (b *backend) deletePlain(ctx context.Context, e *entry) error {
	var resp *clientv3.DeleteResponse
	err := b.call(ctx, func(ctx context.Context) (err error) {
		resp, err = b.client.Delete(ctx, e.key)
		return err
	})
	switch {
	case err != nil:
		e.spoilt = true
		return fmt.Errorf("delete: %w", err)
	case resp.Deleted == 0:
		return driver.ErrGone
	}
	return nil
}

// Abandon deletes the key if it is that of the claim, whatever became of it. If a
// request that puts it may still be on its way it also moves the fence, behind which
// that request is refused.
func (b *backend) Abandon(ctx context.Context, c *driver.Claim) error {
	e := own(c)
	if e == nil {
		return nil // nothing was ever asked
	}
	if !e.sown {
		b.forget(e)
		return nil
	}
	for {
		s := e.doubt()
		err := b.wipe(ctx, e, s)
		switch {
		case err == nil && s == nil:
			if err := b.endLeases(ctx, e); err != nil {
				return err
			}
			b.forget(e)
			return nil
		case errors.Is(err, rpctypes.ErrLeaseNotFound) && s != nil:
			b.endSession(s) // nothing can be put under it any more
		case err != nil:
			return fmt.Errorf("delete: %w", err)
		}
		e.settle(s)
	}
}

// doubt returns a session under which a put of e may still arrive. There is hardly
// ever more than one.
func (e *entry) doubt() *session {
	for _, s := range e.doubts {
		if !s.isGone() {
			return s
		}
	}
	return nil
}

// wipe makes one transaction of Abandon, and one more if the key was marked.
func (b *backend) wipe(ctx context.Context, e *entry, doubt *session) error {
	mine := clientv3.Compare(clientv3.Value(e.key), "=", e.value())
	unmarked := clientv3.Compare(clientv3.Version(e.key), "!=", marked)
	then := []clientv3.Op{clientv3.OpDelete(e.key)}
	otherwise := []clientv3.Op{clientv3.OpTxn([]clientv3.Cmp{mine}, []clientv3.Op{touch(e.key)}, nil)}
	var known int64
	if doubt != nil {
		then, otherwise = append(then, moveFence(doubt)), append(otherwise, moveFence(doubt))
		known = doubt.known()
	}
	resp, err := b.txn(ctx, []clientv3.Cmp{mine, unmarked}, append(then, firstOf(e.queue)), otherwise)
	if errors.Is(err, rpctypes.ErrNoSpace) {
		// The fence cannot be moved, but the name can be given back.
		if gone := b.deletePlain(ctx, e); doubt == nil && (gone == nil || errors.Is(gone, driver.ErrGone)) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	if doubt != nil {
		doubt.moved(resp.Header.Revision, resp.Header.Revision, known)
	}
	if resp.Succeeded {
		b.tell(resp)
		return nil
	}
	if resp.Responses[0].GetResponseTxn().Succeeded { // it was marked
		return b.wipe(ctx, e, nil)
	}
	return nil
}
