// Package redlock is the locker backend for a majority of independent Redis servers.
//
//	l, err := redlock.New([]goredis.UniversalClient{a, b, c, d, e})
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// A lock is held by whoever has it on more than half of the nodes, so that fewer than half may be dead, slow
// or cut off, and nobody waits for them. The nodes are Redis masters, 6.2 or later, that know nothing of each
// other: not a Cluster, and none the replica of another. Their clocks should be slewed, not stepped, and a node that comes
// back without its data should do so only after the longest TTL in use. What this keeps and what it does not keep,
// beside a single Redis, etcd and ZooKeeper, stands in docs/redlock.md.
//
// The nodes have what package redis has on its server, under keys that never meet those, and are all asked at once; redsync
// counts their votes. How that works, why tokens are in order, and what both ask of the nodes' clocks and data stands in
// docs/design/redlock.md. Permits are refused, since majorities of permits need not meet.
//
// # The clients
//
// As package redis says of its client, and of what its user needs: the same commands, and LINSERT. There should be
// one user with these permissions on each node. A node whose user may not SUBSCRIBE, PUBLISH or PUBSUB is named in
// the log; if too few are left a waiter is told so.
package redlock
