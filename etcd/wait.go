package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// await returns when e is the first of its queue. Nobody can come to stand before
// it, since create revisions only grow, so that it is enough to know when the one
// directly ahead goes. That alone does not make e the first: whoever goes may have
// given up waiting; nor does it show that e is still there: its lease may have
// been revoked a moment ago. So e becomes a holder by a look at the queue of
// a revision at which the other was gone: its own look, or that of a release by the
// same Locker, which takes it along in its transaction. Or by what the deletion of a
// marked key tells; see habit.
func (b *backend) await(ctx context.Context, e *entry, p place) error {
	for p.ahead > 0 && !e.isFirst() {
		var err error
		if ahead := b.follow(e, p); ahead != nil {
			p, err = b.awaitOwn(ctx, e, ahead)
		} else {
			p, err = b.awaitOther(ctx, e, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isFirst reports whether a release has seen e at the head of the queue.
func (e *entry) isFirst() bool {
	first, rev := e.first.Load(), e.rev.Load()
	if first == nil || rev == 0 || first.CreateRevision != rev {
		return false
	}
	e.marked = first.Version == marked
	return true
}

// found notes what a release has seen at the head of a queue, if that is the key of
// a claim of this Locker.
func (b *backend) found(kv *mvccpb.KeyValue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[string(kv.Key)]
	if e == nil {
		return
	}
	e.first.Store(kv)
	select {
	case e.head <- struct{}{}:
	default:
	}
}

// awaitOwn waits behind a claim of the same Locker, which costs no request.
func (b *backend) awaitOwn(ctx context.Context, e, ahead *entry) (place, error) {
	look := time.NewTimer(b.fallback)
	defer look.Stop()
	select {
	case <-e.head:
	case <-ahead.over:
	case <-look.C:
	case <-e.session.gone:
		return place{}, errSessionGone
	case <-ctx.Done():
		return place{}, ctx.Err()
	}
	if e.isFirst() {
		return place{}, nil
	}
	return b.look(ctx, e, 0)
}

// awaitOther watches the key directly ahead. Between the look at the queue that
// named it and the beginning of the watch it may have gone, if anything has been
// written at all; then one more look is needed. It need not come at once where
// several are ahead, who cannot all have had their turn yet.
func (b *backend) awaitOther(ctx context.Context, e *entry, p place) (place, error) {
	w, from, err := b.watch(ctx, p.key, p.rev)
	if err != nil {
		return place{}, err
	}
	defer w.close()
	var fence *tap
	if p.tells != nil {
		fence = w.w.stream.ask(b.space()+e.session.fence, p.rev, 0, nil)
		defer fence.close()
	}
	if from > p.rev && p.ahead <= 2 {
		q, err := b.look(ctx, e, 0)
		if err != nil || q.key != p.key {
			return q, err
		}
		p = q
	}
	doubt := b.fallback
	if from > p.rev {
		doubt = min(time.Duration(p.ahead)*5*time.Millisecond, 100*time.Millisecond)
	}
	timer := time.NewTimer(doubt)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			if w.err != nil { // cut off, or nothing to resume from, or no leader
				return place{}, w.err
			}
			if wasFirst(w.was, p.tells) && fence.quietSince(p.rev) && !e.session.isGone() {
				e.marked = true
				return place{}, nil
			}
			return b.look(ctx, e, w.deleted)
		case <-timer.C:
			q, err := b.look(ctx, e, 0)
			if err != nil || q.key != p.key {
				return q, err
			}
			timer.Reset(b.fallback)
		case <-e.session.gone:
			return place{}, errSessionGone
		case <-ctx.Done():
			return place{}, ctx.Err()
		}
	}
}

// look reads where e stands in its queue, at the revision at or at a later one. If
// that is given the nearest member is asked, without the detour by the leader: what it
// says is true of the revision that it says it for, and that is enough. In a
// cluster another member may be behind the one that told of that revision.
func (b *backend) look(ctx context.Context, e *entry, at int64) (place, error) {
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithMaxCreateRev(e.rev.Load()), clientv3.WithLimit(4),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)}
	if at > 0 {
		opts = append(opts, clientv3.WithSerializable())
	}
	var resp *clientv3.GetResponse
	err := b.call(ctx, func(ctx context.Context) (err error) {
		resp, err = b.client.Get(ctx, e.queue, opts...)
		return err
	})
	switch {
	case err != nil:
		return place{}, err
	case resp.Header.Revision < at:
		return b.look(ctx, e, 0)
	case len(resp.Kvs) == 0 || string(resp.Kvs[0].Key) != e.key || resp.Kvs[0].CreateRevision != e.rev.Load():
		return place{}, errEntryGone
	}
	e.marked = resp.Kvs[0].Version == marked
	p := place{ahead: len(resp.Kvs) - 1, rev: resp.Header.Revision}
	if p.ahead > 0 {
		p.key, p.born = string(resp.Kvs[1].Key), resp.Kvs[1].CreateRevision
	}
	return p, nil
}
