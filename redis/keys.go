package redis

import (
	"fmt"
	"hash/crc32"
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
	tag     string // what all its keys begin with
	clock   string
	channel string // what the names of the channels for its messages begin with
}

// place is where one name is.
type place struct {
	*bucket
	lock, queue string
}

func newLayout(prefix string, sharded bool) *layout {
	l := &layout{prefix: prefix, sharded: sharded}
	for i := range l.buckets {
		tag := fmt.Sprintf("%s:{%02x}:", prefix, i)
		l.buckets[i] = bucket{tag: tag, clock: tag + "clock", channel: prefix + ":wake:"}
		if sharded {
			l.buckets[i].channel = tag + "wake:"
		}
	}
	return l
}

func (l *layout) of(name string) place {
	b := &l.buckets[crc32.ChecksumIEEE([]byte(name))&0xff]
	return place{bucket: b, lock: b.tag + "lock:" + name, queue: b.tag + "queue:" + name}
}

// gone is the key that says that a claim has been given up.
func (b *bucket) gone(claim string) string { return b.tag + "gone:" + claim }

// nameOf is the name whose lock is stored under key.
func (l *layout) nameOf(key string) (name string, ok bool) {
	head := len(l.prefix) + len(":{00}:")
	if len(key) <= head {
		return "", false
	}
	name, ok = strings.CutPrefix(key[head:], "lock:")
	return name, ok && l.of(name).lock == key
}

// shard is the "S" of SPUBLISH, where there is one.
func (l *layout) shard() string {
	if l.sharded {
		return "S"
	}
	return ""
}
