package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		if seen[c.Name] {
			t.Errorf("two are called %s", c.Name)
		}
		seen[c.Name] = true
		if (c.Open == nil) == (c.OpenCrowd == nil) || c.Role == "" || c.Family == "" || c.Setup.Service == "" {
			t.Errorf("%s is not complete", c.Name)
		}
	}
	for _, s := range []contender.Service{contender.Memory, contender.File, contender.Redis, contender.ZooKeeper, contender.Etcd, contender.Postgres} {
		for _, role := range []contender.Role{contender.Ours, contender.Rival, contender.Floor} {
			if (contender.Setup{Service: s}).Local() && role != contender.Ours {
				continue
			}
			if !slices.ContainsFunc(All(), func(c contender.Contender) bool { return c.Setup.Service == s && c.Role == role }) {
				t.Errorf("there is no %s on %s", role, s)
			}
		}
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		backends, rivals string
		want, not        string
	}{
		{"", "", "memory file redis redlock-5 zookeeper-1 etcd-3 redislock zk.Lock-3 floor-etcd-1 naive.one-node", ""},
		{"redis", "", "redis redislock rueidislock redsync-1 floor-redis-1 no-lock", "memory redsync-5 zk.Lock-1 floor-etcd-1 naive.one-node"},
		{"redis", "none", "redis floor-redis-1 naive.watch-multi", "redislock"},
		{"none", "redsync", "redsync-1 redsync-5 floor-redis-1", "redis redislock"},
		{"zookeeper-1", "", "zookeeper-1 zk.Lock-1 floor-zookeeper-1 naive.one-node naive.rw-parent naive.rw-last-writer", "zookeeper-3 zk.Lock-3 floor-zookeeper-3 zk.Lock-1-nosync"},
		{"postgres", "", "postgres postgres-durable pglock naive.pg-row naive.pg-for-update naive.pg-advisory floor-postgres-1", "redis memory naive.one-node"},
		{"mysql", "", "mysql", "postgres redis naive.one-node"},
		{"redlock", "redislock", "redlock-5 redlock-5-blackhole redislock", "redsync-5"},
	} {
		chosen, err := Choose(All(), c.backends, c.rivals)
		if err != nil {
			t.Fatalf("%q %q: %v", c.backends, c.rivals, err)
		}
		has := func(name string) bool {
			return slices.ContainsFunc(chosen, func(c contender.Contender) bool { return c.Name == name })
		}
		for name := range strings.FieldsSeq(c.want) {
			if !has(name) {
				t.Errorf("-backends %q -rivals %q: %s is missing", c.backends, c.rivals, name)
			}
		}
		for name := range strings.FieldsSeq(c.not) {
			if has(name) {
				t.Errorf("-backends %q -rivals %q: %s is there", c.backends, c.rivals, name)
			}
		}
	}
	for _, wrong := range [][2]string{{"redsync", ""}, {"", "redis"}, {"oracle", ""}} {
		if _, err := Choose(All(), wrong[0], wrong[1]); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}
