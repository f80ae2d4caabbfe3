package etcd

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/names"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// namesAtOnce is how many keys Names reads with one request.
const namesAtOnce = 1000

// Look reads the queue of name. How long a key will be kept is asked for the holders,
// with one request for each lease.
func (b *backend) Look(ctx context.Context, name string) ([]driver.Position, error) {
	resp, err := b.get(ctx, b.queueOf(name), inOrder(clientv3.SortAscend)...)
	if err != nil {
		return nil, err
	}
	left := make(map[clientv3.LeaseID]time.Duration)
	var positions []driver.Position
	var ahead int64
	for _, e := range parseAll(resp.Kvs) {
		p := driver.Position{Name: name, ID: e.id, Owner: e.owner, Weight: e.weight, Limit: e.limit, Since: e.joined}
		p.Held = driver.Fits(ahead, e.weight, e.limit)
		ahead += int64(e.weight)
		if p.Held {
			p.Token = e.rev << tokenBits
			if _, known := left[e.lease]; !known {
				if left[e.lease], err = b.timeLeft(ctx, e.lease); err != nil {
					return nil, err
				}
			}
			p.Left = left[e.lease]
			if e.how != free {
				p.Since = time.Time{} // it may have been granted later than it joined
			}
		}
		positions = append(positions, p)
	}
	return positions, nil
}

// timeLeft returns for how long a lease will live; 0 if there is none.
func (b *backend) timeLeft(ctx context.Context, lease clientv3.LeaseID) (time.Duration, error) {
	resp, err := insist(ctx, b, func(ctx context.Context) (*clientv3.LeaseTimeToLiveResponse, error) {
		return b.client.TimeToLive(ctx, lease)
	})
	if err != nil {
		return 0, err
	}
	return max(0, time.Duration(resp.TTL)*time.Second), nil
}

// Names reads all keys of this prefix whose names may begin with prefix, in the order
// of the keys, which has those of one name together.
func (b *backend) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		start := b.prefix
		if strings.Trim(prefix, ".") != "" { // names that are all dots are escaped in another way
			start += names.Escape(prefix)
		}
		end, last := clientv3.GetPrefixRangeEnd(start), ""
		for {
			resp, err := b.get(ctx, start, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(namesAtOnce))
			if err != nil {
				yield("", err)
				return
			}
			for _, kv := range resp.Kvs {
				start = string(kv.Key) + "\x00"
				name, ok := b.nameOf(string(kv.Key))
				if !ok || name == last || !strings.HasPrefix(name, prefix) {
					continue
				}
				if last = name; !yield(name, nil) {
					return
				}
			}
			if !resp.More {
				return
			}
		}
	}
}

// Evict deletes the key with this ID in its value. What has no ID, as it is in another format, it does not find.
func (b *backend) Evict(ctx context.Context, name, id string) error {
	for asked := false; ; asked = true {
		resp, err := b.get(ctx, b.queueOf(name), inOrder(clientv3.SortAscend)...)
		if err != nil {
			return err
		}
		entries := parseAll(resp.Kvs)
		i := slices.IndexFunc(entries, func(e entry) bool { return e.id == id && id != "" })
		switch {
		case i >= 0:
			err = b.change(ctx, &claimState{key: entries[i].key, rev: entries[i].rev}, clientv3.OpDelete(entries[i].key))
		case asked:
			return nil // by a request that was not answered
		default:
			return driver.ErrGone
		}
		if !errors.Is(err, errSilence) {
			return err
		}
	}
}
