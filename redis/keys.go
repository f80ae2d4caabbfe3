package redis

import (
	"fmt"
	"strings"
	"sync/atomic"
)

// layout says where things are on the server.
type layout struct {
	prefix  string
	locker  string
	sharded bool
	buckets [256]atomic.Pointer[bucket] // those that were needed: few Lockers need all
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
	// moving is the queue in which the Locker waited last, if it moves.
	moving atomic.Pointer[moving]
}

func newLayout(prefix, locker string, sharded bool) *layout {
	return &layout{prefix: prefix, locker: locker, sharded: sharded}
}

// of is the bucket of a name.
func (l *layout) of(name string) *bucket {
	sum := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		sum = (sum ^ uint32(name[i])) * 16777619
	}
	place := &l.buckets[sum>>24]
	if place.Load() == nil {
		place.CompareAndSwap(nil, l.bucket(sum>>24))
	}
	return place.Load()
}

func (l *layout) bucket(i uint32) *bucket {
	tag := fmt.Sprintf("%s:{%02x}:", l.prefix, i)
	b := &bucket{tag: tag, clock: tag + "clock", channel: l.prefix + ":wake:" + l.locker}
	if l.sharded {
		b.channel = tag + "wake:" + l.locker
	}
	b.clockArg, b.channelArg = b.clock, b.channel
	return b
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
