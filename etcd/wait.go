package etcd

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// fallbackInterval is how often a waiter looks at its queue although nobody told it to,
	// in case a message was lost, or the server was given an older state back.
	fallbackInterval = time.Minute
	// longWait is when a waiter begins to watch its own key too, to queue anew at once when
	// that is deleted. Who waits for less learns of it when its turn comes.
	longWait = 5 * time.Second
)

// view is what a claim has seen ahead of it at a revision. If one of those ahead keeps it from being granted all alone, only
// the nearest such counts, and its key is watched: for an exclusive claim that is the one directly ahead, for a shared one
// the last exclusive one. Among permits one that waits ahead keeps it from that, too, until it says that it is granted.
// Otherwise all those ahead count and the whole queue is watched: any of them may be the next to go. So one waiter is told of
// every release, and not all.
type view struct {
	rev     int64
	watches string           // a key, or what all keys of the queue begin with
	counts  map[string]int64 // the weights of those that count, by key
}

// newView makes the view of cs from the entries ahead of it, the nearest first.
func newView(cs *claimState, ahead []entry, rev int64) view {
	v := view{rev: rev, watches: cs.queue, counts: make(map[string]int64)}
	var farther int64 // the weights ahead of e
	for _, e := range ahead {
		farther += int64(e.weight)
	}
	for _, e := range ahead {
		weight := int64(e.weight)
		farther -= weight
		if cs.isBehind(e) && !driver.Fits(farther, e.weight, e.limit) {
			weight = int64(driver.All) // until it is granted
		}
		v.counts[e.key] = weight
		if !driver.Fits(weight, cs.claim.Weight, cs.claim.Limit) {
			v.watches, v.counts = e.key, map[string]int64{e.key: weight}
			break
		}
	}
	return v
}

// isBehind reports whether both are permits and cs cannot be granted before e is.
func (cs *claimState) isBehind(e entry) bool {
	return cs.permits() && e.limit != driver.All && e.limit >= cs.claim.Limit-cs.claim.Weight
}

func (cs *claimState) permits() bool { return cs.claim.Limit != driver.All }

// lets reports whether cs fits behind those that count.
func (v *view) lets(cs *claimState) bool {
	var sum int64
	for _, weight := range v.counts {
		sum += weight
	}
	return driver.Fits(sum, cs.claim.Weight, cs.claim.Limit)
}

// apply takes in what has happened since and reports whether cs may have been granted, or has lost its key.
func (v *view) apply(cs *claimState, events []*clientv3.Event) bool {
	seen := v.rev // several events may have one revision, as when a lease ends
	for _, ev := range events {
		key := string(ev.Kv.Key)
		_, counts := v.counts[key]
		v.rev = max(v.rev, ev.Kv.ModRevision)
		switch {
		case ev.Kv.ModRevision <= seen:
		case key == cs.key:
			return true
		case counts && ev.Type == clientv3.EventTypePut: // it has become lighter, or is granted
			v.counts[key] = int64(parse(ev.Kv).weight)
		default:
			delete(v.counts, key)
		}
	}
	return v.lets(cs)
}

// await returns nil when cs, which has seen v, is granted; one that does not wait it takes out of the queue instead, and returns
// ErrTaken. Nobody can come to stand ahead of it, since create revisions only grow, so that it is enough to know when those
// ahead go. That alone does not grant it: those farther ahead may still be there, and its own key may not. So the end is
// always a look.
func (b *backend) await(ctx context.Context, cs *claimState, v view) error {
	begun := time.Now()
	for !v.lets(cs) {
		if !cs.claim.Wait { // others came between the look and the put
			cs.unsure = true // the cleanup may arrive late: the key is not to be relied on any more
			return cmp.Or(b.clear(ctx, cs), driver.ErrTaken)
		}
		cs.tells = cs.permits()
		var err error
		if v, err = b.awaitChange(ctx, cs, v, time.Since(begun) >= longWait); err != nil {
			return err
		}
	}
	if cs.tells {
		if err := b.rewrite(ctx, cs); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
			return err
		}
		cs.tells = false
	}
	return nil
}

// awaitChange watches what v says, and the key of cs itself if own is set, until cs may have been
// granted or it is time to look anyway. It returns what it sees then.
func (b *backend) awaitChange(ctx context.Context, cs *claimState, v view, own bool) (view, error) {
	w, ofOwn, lookAfter := b.watch(v.watches), new(watch), longWait
	defer b.subscription.unwatch(w)
	if own {
		ofOwn, lookAfter = b.watch(cs.key), fallbackInterval
		defer b.subscription.unwatch(ofOwn)
	}
	timer := time.After(lookAfter)
	for at := max(w.rev, ofOwn.rev); ; {
		if at > v.rev { // something may have happened that cs is not told of
			now, err := b.look(ctx, cs, at)
			if err != nil || now.lets(cs) || now.watches != v.watches {
				return now, err
			}
			v = now
		}
		at = 0
		var r clientv3.WatchResponse
		select {
		case r = <-w.told:
			w.rev = max(w.rev, r.Header.Revision)
		case r = <-ofOwn.told:
			ofOwn.rev = max(ofOwn.rev, r.Header.Revision)
		case <-timer:
			return b.look(ctx, cs, 0)
		case <-w.stream.Done():
			return view{}, errWatchEnded
		case <-cs.session.gone.Done():
			return view{}, errSessionGone
		case <-ctx.Done():
			return view{}, ctx.Err()
		}
		if r.Created {
			at = r.Header.Revision // what came before is not told
		} else if v.apply(cs, r.Events) {
			return b.look(ctx, cs, v.rev)
		}
	}
}

// look reads what is ahead of cs, at the revision at or at a later one. If that is given the nearest member is asked, without
// the detour by the leader: what it says is true of the revision that it says it for, and that is enough. In a cluster
// another member may be behind the one that told of that revision.
func (b *backend) look(ctx context.Context, cs *claimState, at int64) (view, error) {
	opts := inOrder(clientv3.SortDescend, clientv3.WithMaxCreateRev(cs.rev), cs.enough(1))
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
