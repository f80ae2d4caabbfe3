package redis

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// layout says where things are on the server.
type layout struct {
	prefix  string
	sharded bool
	buckets [256]bucket
}

// bucket is a part of all names. Its names share a clock and a hash tag.
type bucket struct {
	tag        string // what all its keys begin with
	clock      string
	channel    string // on which the Locker is told news of its names
	clockArg   any    // the same as arguments
	channelArg any

	// looks is the moment until which somebody may wait for names of the bucket.
	looks atomic.Int64
}

func newLayout(prefix, locker string, sharded bool) *layout {
	l := &layout{prefix: prefix, sharded: sharded}
	for i := range l.buckets {
		b := &l.buckets[i]
		b.tag = fmt.Sprintf("%s:{%02x}:", prefix, i)
		b.clock = b.tag + "clock"
		b.channel = prefix + ":wake:" + locker
		if sharded {
			b.channel = b.tag + "wake:" + locker
		}
		b.clockArg, b.channelArg = b.clock, b.channel
	}
	return l
}

// of is the bucket of a name.
func (l *layout) of(name string) *bucket {
	sum := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		sum = (sum ^ uint32(name[i])) * 16777619
	}
	return &l.buckets[sum>>24]
}

// The keys of a name and of a claim: see lua/shared.lua.

func (b *bucket) lock(name string) string  { return b.tag + "lock:" + name }
func (b *bucket) queue(name string) string { return b.tag + "queue:" + name }
func (b *bucket) gone(claim string) string { return b.tag + "gone:" + claim }

// nameOf is the name whose lock is stored under key.
func (l *layout) nameOf(key string) (name string, ok bool) {
	head := len(l.prefix) + len(":{00}:")
	if len(key) <= head {
		return "", false
	}
	name, ok = strings.CutPrefix(key[head:], "lock:")
	return name, ok && l.of(name).lock(name) == key
}
