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

// Look reads the queue of name. How long a key will be kept is asked for the holders, with one request for each lease.
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
				err := insist(ctx, func() error {
					resp, err := call(ctx, b, func(ctx context.Context) (*clientv3.LeaseTimeToLiveResponse, error) {
						return b.client.TimeToLive(ctx, e.lease)
					})
					if err == nil {
						left[e.lease] = max(0, time.Duration(resp.TTL)*time.Second) // the server says -1 if there is none
					}
					return err
				})
				if err != nil {
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

// Evict deletes the key with this ID in its value. What has no ID, as it is in another format, it does not find. A waiter that
// was evicted queues anew with the same ID: so the queue is read once, and what is repeated deletes only the key that was read.
func (b *backend) Evict(ctx context.Context, name, id string) error {
	resp, err := b.get(ctx, b.queueOf(name), inOrder(clientv3.SortAscend)...)
	if err != nil {
		return err
	}
	entries := parseAll(resp.Kvs)
	i := slices.IndexFunc(entries, func(e entry) bool { return e.id == id && id != "" })
	if i < 0 {
		return driver.ErrGone
	}
	sent := 0
	err = insist(ctx, func() error {
		sent++
		return b.change(ctx, &claimState{key: entries[i].key, rev: entries[i].rev}, clientv3.OpDelete(entries[i].key))
	})
	if sent > 1 && errors.Is(err, driver.ErrGone) {
		return nil // an earlier one has deleted it
	}
	return err
}
