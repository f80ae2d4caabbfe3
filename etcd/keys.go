package etcd

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/names"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// mark ends the queue part of a key. Names always escape it and WithPrefix refuses it, so that the part of a key before its
// first mark belongs to one prefix and one name: what is behind the last "/" is the name.
const mark = "#"

// queueOf returns what the keys of all claims of a name begin with.
func (b *backend) queueOf(name string) string {
	return b.prefix + names.Escape(name) + mark
}

// barrierOf returns the barrier key of a session. No name is empty, so it is in no queue.
func (b *backend) barrierOf(lease clientv3.LeaseID) string {
	return b.prefix + mark + "barrier/" + strconv.FormatInt(int64(lease), 16)
}

// nameOf returns the name of a key of this prefix; not ok if it is none of a claim.
func (b *backend) nameOf(key string) (name string, ok bool) {
	escaped, _, ok := strings.Cut(strings.TrimPrefix(key, b.prefix), mark)
	if !ok || escaped == "" || strings.Contains(escaped, "/") {
		return "", false
	}
	name, err := url.PathUnescape(escaped)
	return name, err == nil
}

// chooseKey gives cs a key that no other claim of this Locker has. Its number is the lowest that is free above those that cs has
// had, so that key names are used again: etcd remembers a deleted name until its history is compacted, and each look at the
// queue steps over all of them.
func (b *backend) chooseKey(cs *claimState) {
	b.keysMu.Lock()
	defer b.keysMu.Unlock()
	for had := cs.key; ; cs.number++ {
		cs.key = cs.queue + b.id + "." + strconv.Itoa(cs.number)
		if !b.keys[cs.key] {
			b.keys[cs.key] = true
			delete(b.keys, had)
			return
		}
	}
}

// forget makes a key free to be used again.
func (b *backend) forget(key string) {
	b.keysMu.Lock()
	defer b.keysMu.Unlock()
	delete(b.keys, key)
}

const (
	// formatVersion begins every value. A value that begins otherwise counts as an
	// exclusive claim, so that a later format is never overlooked.
	formatVersion = "1"
	// free and queued are what a value says about how its claim joined the queue: granted
	// by the request that put it, or behind others, with whom it may have been granted at once.
	free, queued = "free", "queued"
)

// value returns what is stored under the key of cs, in the form that docs/design/etcd.md describes.
func (cs *claimState) value(how string) string {
	return strings.Join([]string{
		formatVersion, strconv.Itoa(int(cs.weight)), strconv.Itoa(int(cs.claim.Limit)),
		cs.claim.ID, how, strconv.FormatInt(cs.joined.UnixMilli(), 10), cs.claim.Owner,
	}, " ")
}

// entry is one key in a queue.
type entry struct {
	key, id, owner string
	weight, limit  int32
	how            string
	joined         time.Time // by the clock of the machine that put it
	rev            int64     // create revision
	lease          clientv3.LeaseID
}

// parse reads a key and its value. What it does not understand is an exclusive claim without an ID.
func parse(kv *mvccpb.KeyValue) entry {
	e := entry{key: string(kv.Key), rev: kv.CreateRevision, lease: clientv3.LeaseID(kv.Lease), weight: driver.All, limit: driver.All}
	f := strings.SplitN(string(kv.Value), " ", 7)
	if len(f) != 7 || f[0] != formatVersion {
		return e
	}
	weight, err := strconv.ParseInt(f[1], 10, 32)
	limit, err2 := strconv.ParseInt(f[2], 10, 32)
	joined, err3 := strconv.ParseInt(f[5], 10, 64)
	if err := errors.Join(err, err2, err3); err != nil || weight < 1 {
		return e
	}
	e.weight, e.limit, e.joined = int32(weight), int32(limit), time.UnixMilli(joined)
	e.id, e.how, e.owner = f[3], f[4], f[6]
	return e
}

func parseAll(kvs []*mvccpb.KeyValue) []entry {
	entries := make([]entry, len(kvs))
	for i, kv := range kvs {
		entries[i] = parse(kv)
	}
	return entries
}
