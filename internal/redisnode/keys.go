package redisnode

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/seed80cd6120/locker"
)

// keys says where things are on the server. The names are divided among 256 buckets by a checksum. The
// bucket's two digits are the hash tag of all keys of its names, so that in a Cluster they are in one slot.
// Since a prefix has no brace, no two prefixes have a key in common.
type keys struct {
	prefix string
	kind   string // before the digits: keeps those apart who use the prefix in different ways
}

// CheckPrefix returns an error unless keys may begin with prefix.
func CheckPrefix(prefix string) error {
	if prefix == "" || len(prefix) > 100 || strings.ContainsAny(prefix, "{} \t\n\v\f\r") {
		return fmt.Errorf("%w: prefix: want 1 to 100 bytes without braces and spaces", locker.ErrInvalidOption)
	}
	return nil
}

// tag returns what all keys of the bucket of name begin with: its number is the first byte of the name's
// FNV-1a checksum.
func (k keys) tag(name string) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return fmt.Sprintf("%s:{%s%02x}:", k.prefix, k.kind, sum.Sum32()>>24)
}

// name returns the name whose lock or queue is stored under key; not ok if it is no such key.
func (k keys) name(key string) (name string, ok bool) {
	head := len(k.tag(""))
	if len(key) <= head {
		return "", false
	}
	kind, name, _ := strings.Cut(key[head:], ":")
	return name, name != "" && (kind == "lock" || kind == "queue") && k.tag(name) == key[:head]
}

// pattern matches the keys of locks and queues whose name begins with prefix, and others, which name
// excludes.
func (k keys) pattern(prefix string) string {
	quote := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
	return quote.Replace(k.prefix) + ":{" + k.kind + "??}:*:" + quote.Replace(prefix) + "*"
}
