package etcd

import (
	"cmp"
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// await returns when e is the first of its queue. Nobody can come to stand before
// it, since create revisions only grow, so that it is enough to know when the one
// directly ahead goes. That alone does not make e the first: whoever goes may have
// given up waiting; nor does it show that e is still there: its lease may have
// been revoked. So e becomes a holder by a look at the queue of a revision at which
// nobody was ahead: its own look, or that of a release by the same Locker, which takes
// it along in its transaction. Or by a look that shows nobody ahead but the holder, who
// then goes, while the server, which tells on one stream of one deletion after another, has
// told of no deletion of e before. (It may not keep that order on a stream on which 128
// messages are waiting, or when a member is sent a snapshot. If just then somebody deletes
// e by hand the guard tells, as of a holder whose key is deleted.)
func (b *backend) await(ctx context.Context, e *entry, p place) error {
	for p.ahead > 0 && !e.isFirst() {
		var err error
		if n := b.lookup(p.key, p.born); n != nil {
			p, err = b.awaitOwn(ctx, e, n)
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
	rev := e.rev.Load()
	return rev > 0 && e.first.Load() == rev
}

// found notes what a release has seen at the head of a queue, if that is the key of
// a claim of this Locker.
func (b *backend) found(key string, rev int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key]
	if e == nil {
		return
	}
	e.first.Store(rev)
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
//
// Who waits behind the same one again watches two more keys, so that no look stands between
// the release and the next: that of the one before, whose deletion as a rule makes the one
// directly ahead the holder, for a look in good time; and its own, to know at the end that
// it is still there.
func (b *backend) awaitOther(ctx context.Context, e *entry, p place) (place, error) {
	w, from, err := b.watch(ctx, p.key, p.rev)
	if err != nil {
		return place{}, err
	}
	defer w.close()
	var own, second *tap
	if w.again {
		own = w.w.stream.ask(b.space()+e.key, e.rev.Load(), 0, nil)
		defer own.close()
	}
	if from > p.rev && p.ahead <= 2 {
		q, err := b.look(ctx, e, 0)
		if err != nil || q.key != p.key {
			return q, err
		}
		p = q
	}
	if w.again && p.ahead > 1 {
		second = w.w.stream.ask(b.space()+p.second, p.rev, 0, nil)
		defer second.close()
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
			switch {
			case w.err != nil: // cut off, or nothing to resume from, or no leader
				return place{}, w.err
			case p.ahead == 1 && own.quietSince(p.rev) && !e.session.isGone():
				return place{}, nil
			}
			return b.look(ctx, e, w.deleted)
		case <-second.ended():
			if second.err != nil {
				return place{}, second.err
			}
			return b.look(ctx, e, second.deleted)
		case <-own.ended():
			return place{}, cmp.Or(own.err, errEntryGone)
		case <-timer.C:
			q, err := b.look(ctx, e, 0)
			if err != nil || q.key != p.key || q.second != p.second {
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
	asked := b.clock.Now()
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
	return behind(len(resp.Kvs)-1, resp.Kvs[1:], resp.Header.Revision, asked), nil
}
