package etcd

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/driver"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// fallbackInterval is how often a waiter looks at its queue although nobody told it to,
	// in case a message was lost.
	fallbackInterval = time.Minute
	// longWait is when a waiter begins to watch its own key too, to queue anew at once when
	// that is deleted. Who waits for less learns of it when its turn comes.
	longWait = 5 * time.Second
)

// view is what a claim has seen ahead of it at a revision. If one of those ahead keeps it from
// being granted all alone, only the nearest such counts, and its key is watched: for an
// exclusive claim that is the one directly ahead, for a shared one the last exclusive one.
// Otherwise, with permits, all those ahead count and the whole queue is watched: any of
// them may be the next to go.
type view struct {
	rev    int64
	fits   bool
	target target           // what to watch
	counts map[string]int64 // weights, by key
	sum    int64            // of the weights in counts
}

// newView makes the view of cs from the entries ahead of it, the nearest first.
func newView(cs *claimState, ahead []entry, rev int64) view {
	weight, limit := cs.claim.Weight, cs.claim.Limit
	v := view{rev: rev, counts: make(map[string]int64)}
	for _, e := range ahead {
		v.sum += int64(e.weight)
		v.counts[e.key] = int64(e.weight)
		if !driver.Fits(int64(e.weight), weight, limit) {
			v.sum, v.counts = int64(e.weight), map[string]int64{e.key: int64(e.weight)}
			v.target = target{key: e.key, puts: weight < limit}
			return v
		}
	}
	v.fits = driver.Fits(v.sum, weight, limit)
	v.target = target{key: cs.queue, queue: true, puts: true}
	return v
}

// apply takes in what has happened since and reports whether cs may have been granted.
func (v *view) apply(cs *claimState, events []*clientv3.Event) bool {
	for _, ev := range events {
		key := string(ev.Kv.Key)
		weight, ok := v.counts[key]
		if ev.Kv.ModRevision <= v.rev || !ok {
			continue
		}
		v.rev = ev.Kv.ModRevision
		v.sum -= weight
		delete(v.counts, key)
		if ev.Type == clientv3.EventTypePut { // it has become lighter
			v.counts[key] = int64(parse(ev.Kv).weight)
			v.sum += v.counts[key]
		}
	}
	return driver.Fits(v.sum, cs.claim.Weight, cs.claim.Limit)
}

// await returns nil when cs, which has seen v, is granted. Nobody can come to stand ahead
// of it, since create revisions only grow, so that it is enough to know when those
// ahead go. That alone does not grant it: those farther ahead may still be there, and its
// own key may not. So the end is always a look.
func (b *backend) await(ctx context.Context, cs *claimState, v view) error {
	for !v.fits {
		var err error
		if v, err = b.awaitChange(ctx, cs, v); err != nil {
			return err
		}
	}
	return nil
}

// awaitChange watches what v says until cs may have been granted, and looks then.
func (b *backend) awaitChange(ctx context.Context, cs *claimState, v view) (view, error) {
	b.waited.Store(int64(b.clock.Now()))
	w, since, err := b.watch(ctx, v.target)
	if err != nil {
		return view{}, err
	}
	defer w.close()
	if since > v.rev { // something may have happened before the watch began
		now, err := b.look(ctx, cs, since)
		if err != nil || now.fits || now.target != v.target {
			return now, err
		}
		v = now
	}
	fallback, long := time.NewTimer(fallbackInterval), time.NewTimer(longWait)
	defer fallback.Stop()
	defer long.Stop()
	own := new(watch) // of its own key, later
	for {
		select {
		case <-w.news:
			events, ended := w.take()
			if ended != nil {
				return view{}, ended
			}
			if v.apply(cs, events) {
				return b.look(ctx, cs, v.rev)
			}
		case <-long.C:
			if own, since, err = b.watch(ctx, target{key: cs.key}); err != nil {
				return view{}, err
			}
			defer own.close()
			if now, err := b.look(ctx, cs, since); err != nil || now.fits {
				return now, err
			}
		case <-own.news:
			return b.look(ctx, cs, 0)
		case <-fallback.C:
			return b.look(ctx, cs, 0)
		case <-cs.session.gone:
			return view{}, errSessionGone
		case <-ctx.Done():
			return view{}, ctx.Err()
		}
	}
}

// look reads what is ahead of cs, at the revision at or at a later one. If that is given
// the nearest member is asked, without the detour by the leader: what it
// says is true of the revision that it says it for, and that is enough. In a
// cluster another member may be behind the one that told of that revision.
func (b *backend) look(ctx context.Context, cs *claimState, at int64) (view, error) {
	opts := append(nearestFirst(), clientv3.WithMaxCreateRev(cs.rev))
	if n := cs.enough(); n > 0 {
		opts = append(opts, clientv3.WithLimit(n+1))
	}
	if at > 0 {
		opts = append(opts, clientv3.WithSerializable())
	}
	resp, err := b.get(ctx, cs.queue, opts...)
	switch {
	case err != nil:
		return view{}, err
	case resp.Header.Revision < at:
		return b.look(ctx, cs, 0)
	case len(resp.Kvs) == 0 || string(resp.Kvs[0].Key) != cs.key || resp.Kvs[0].CreateRevision != cs.rev:
		return view{}, errPlaceGone
	}
	return newView(cs, parseAll(resp.Kvs[1:]), resp.Header.Revision), nil
}
