package redis

import (
	"fmt"
	"strings"
)

// layout says where things are on the server.
type layout struct {
	prefix  string
	sharded bool
	buckets [256]bucket
}

// bucket is a part of all names. Its names share a clock and a hash tag.
type bucket struct {
	tag      string // what all its keys begin with
	clock    string
	clockArg any    // the same as an argument
	channel  string // on which the Locker is told news of its names
}

func newLayout(prefix, locker string, sharded bool) *layout {
	l := &layout{prefix: prefix, sharded: sharded}
	for i := range l.buckets {
		tag := fmt.Sprintf("%s:{%02x}:", prefix, i)
		b := bucket{tag: tag, clock: tag + "clock", channel: prefix + ":wake:" + locker}
		if sharded {
			b.channel = tag + "wake:" + locker
		}
		b.clockArg = b.clock
		l.buckets[i] = b
	}
	return l
}

// of is the bucket of a name. The scripts make the keys that are not needed every
// time: see lua/shared.lua.
func (l *layout) of(name string) *bucket {
	sum := uint32(2166136261) // FNV-1a
	for i := range len(name) {
		sum = (sum ^ uint32(name[i])) * 16777619
	}
	return &l.buckets[sum>>24]
}

func (b *bucket) lock(name string) string { return b.tag + "lock:" + name }

// nameOf is the name whose lock is stored under key.
func (l *layout) nameOf(key string) (name string, ok bool) {
	head := len(l.prefix) + len(":{00}:")
	if len(key) <= head {
		return "", false
	}
	name, ok = strings.CutPrefix(key[head:], "lock:")
	return name, ok && l.of(name).lock(name) == key
}
