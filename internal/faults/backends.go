package faults

// Backends are those of this project, each on every kind of servers that it is put to
// the test on.
var Backends = []Backend{
	Redis1, RedisEmpty, RedisReplica, RedisSentinel, RedisCluster,
	RedLock5,
	ZooKeeper1, ZooKeeper3,
	Etcd1, Etcd3,
}
