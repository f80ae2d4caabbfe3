package faults

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/internal/servers"
)

// Servers that do not let the client do what it asks for.
var accessRows = []Row{
	{Number: 29, Name: "no-password", Run: func(x *Exam) { x.refused("NOAUTH") }, Fresh: true, For: []string{"redis-1"},
		Backend: on(func(t testing.TB) *Servers {
			return redisServers("redis", []*servers.Redis{servers.NewRedis(t, servers.RedisOptions{Password: "secret"})})
		}), See: "an error that names it, and no key"},
	{Number: 29, Name: "no-password", Run: func(x *Exam) { x.refused("NOAUTH") }, Fresh: true, For: []string{redlockFamily},
		Backend: on(func(t testing.TB) *Servers {
			return redisServers("redlock", servers.NewRedisSet(t, 5, servers.RedisOptions{Password: "secret"}))
		}), See: "an error that names it, and no key"},
	{Number: 29, Name: "no-user", Run: noUser, Fresh: true, For: []string{"etcd-1"},
		Backend: on(func(t testing.TB) *Servers {
			e := servers.NewEtcd(t, servers.EtcdOptions{RootPassword: "secret"})
			return etcdOn(&servers.EtcdCluster{Members: []*servers.Etcd{e}})
		}), See: "an error that names it"},
	{Number: 29, Name: "no-permission", Run: noPermission, Fresh: true, For: []string{"zookeeper-1"},
		See: "an error that names it, and no node"},
}

// on has a row run on other servers than its backend's.
func on(start func(t testing.TB) *Servers) func(b Backend) Backend {
	return func(b Backend) Backend {
		b.Start = start
		return b
	}
}

// refused asserts that a client that may not do anything is told so, at once, and has
// left nothing.
func (x *Exam) refused(word string) {
	a, _ := x.Player("A")
	start := time.Now()
	x.names3(a, word)
	if took := time.Since(start); took > 2*time.Second {
		x.Errorf("no waiting mends that, and yet it took %v", took)
	}
}

func noUser(x *Exam) {
	x.Litter = nil // nor may we look
	x.refused("user name is empty")
}

// The folder of the queues belongs to somebody else.
func noPermission(x *Exam) {
	c, err := ZooKeeperConn(x.Within(10*time.Second), x.Addrs)
	x.Must(err)
	defer c.Close()
	_, err = c.Create("/locker", nil, 0, append(zk.DigestACL(zk.PermAll, "other", "secret"), zk.WorldACL(zk.PermRead)...))
	x.Must(err)
	x.refused("not authenticated")
}
