package etcd

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/names"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// mark ends the queue part of a key. Names always escape it and WithPrefix refuses it, so
// that the part of a key before its first mark belongs to one prefix and one name: what is
// behind the last "/" is the name.
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

// chooseKey gives cs a key that no other claim of this Locker has. Its number is the
// lowest that is free, so that key names are used again: etcd remembers a deleted name
// until its history is compacted, and each look at the queue steps over all of them.
func (b *backend) chooseKey(cs *claimState) {
	b.keysMu.Lock()
	defer b.keysMu.Unlock()
	for n := 0; ; n++ {
		cs.key = cs.queue + b.id + "." + strconv.Itoa(n)
		if !b.keys[cs.key] {
			b.keys[cs.key] = true
			return
		}
	}
}

// forget makes the key of cs free to be used again.
func (b *backend) forget(cs *claimState) {
	b.keysMu.Lock()
	defer b.keysMu.Unlock()
	delete(b.keys, cs.key)
}

// formatVersion begins every value. A value that begins otherwise counts as an
// exclusive claim, so that a later format is never overlooked.
const formatVersion = "1"

// free and queued are what a value says about how its claim joined the queue.
const (
	free   = "free"   // nobody was there: it was granted at once
	queued = "queued" // behind others
)

// value returns what is stored under the key of cs:
//
//	1 <weight> <limit> <claim ID> free|queued <Unix milliseconds> <owner>
func (cs *claimState) value(how string) string {
	return strings.Join([]string{formatVersion, number(cs.weight), number(cs.claim.Limit), cs.claim.ID, how, strconv.FormatInt(cs.joined.UnixMilli(), 10), cs.claim.Owner}, " ")
}

func number(n int32) string {
	if n == driver.All {
		return "all"
	}
	return strconv.FormatInt(int64(n), 10)
}

func parseNumber(s string) (n int32, err error) {
	if s == "all" {
		return driver.All, nil
	}
	parsed, err := strconv.ParseInt(s, 10, 32)
	if err == nil && parsed <= 0 {
		err = fmt.Errorf("%s is not a weight", s)
	}
	return int32(parsed), err
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

// parse reads a key and its value. What it does not understand is an exclusive claim
// without an ID.
func parse(kv *mvccpb.KeyValue) entry {
	e := entry{key: string(kv.Key), weight: driver.All, limit: driver.All, rev: kv.CreateRevision, lease: clientv3.LeaseID(kv.Lease)}
	f := strings.SplitN(string(kv.Value), " ", 7)
	if len(f) != 7 || f[0] != formatVersion {
		return e
	}
	weight, err := parseNumber(f[1])
	limit, err2 := parseNumber(f[2])
	joined, err3 := strconv.ParseInt(f[5], 10, 64)
	if err != nil || err2 != nil || err3 != nil {
		return e
	}
	e.weight, e.limit, e.id, e.how, e.joined, e.owner = weight, limit, f[3], f[4], time.UnixMilli(joined), f[6]
	return e
}

func parseAll(kvs []*mvccpb.KeyValue) []entry {
	entries := make([]entry, len(kvs))
	for i, kv := range kvs {
		entries[i] = parse(kv)
	}
	return entries
}
