package etcd

import (
	"context"
	"errors"
	"reflect"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

var errNoSpaceYet = errors.New("the key is not known to be under its lease yet")

// space is what the client puts before every key without showing it, as package
// namespace does. Watches, which do not go through the client's Watcher, have to know.
func (b *backend) space() string {
	if p := b.spaceFound.Load(); p != nil {
		return *p
	}
	return ""
}

// findSpace finds it out, once, with the help of a key just put: the lease tells the
// names of its keys as they really are.
func (b *backend) findSpace(ctx context.Context, e *entry) error {
	if b.spaceFound.Load() != nil {
		return nil
	}
	if reflect.TypeOf(b.client.KV) == reflect.TypeOf(clientv3.NewKV(b.client)) {
		b.spaceFound.Store(new(string))
		return nil
	}
	keys, err := b.keysUnder(ctx, e.session)
	if err != nil {
		return err
	}
	for key := range keys {
		if before, ok := strings.CutSuffix(key, e.key); ok {
			b.spaceFound.Store(&before)
			return nil
		}
	}
	return errNoSpaceYet // the member asked, the leader, has yet to apply the put
}
