// Package redlock is the locker backend for a majority of independent Redis servers.
//
//	l, err := redlock.New([]goredis.UniversalClient{a, b, c, d, e})
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// A lock is held by whoever has it on more than half of the nodes, so that fewer than half may be dead, slow
// or cut off, and nobody waits for them. The nodes are Redis masters, 6.2 or later, that know nothing of each
// other: not a Cluster, and none the replica of another. What this keeps and what it does not keep, beside a
// single Redis, etcd and ZooKeeper, stands in docs/redlock.md.
//
// # How it works
//
// The nodes have what package redis has on its server, read and written by the same scripts; keys look like
// redlock:{qd7}:lock:orders/42, so that the two never meet under one prefix. All nodes are asked at once, and a
// majority decides: each grants the name or puts the claim into its queue, and redsync counts the votes. The
// queues are in the order of the claims' ages, which is the same on all nodes.
//
// A release makes, on each node, the first of the queue the holder, and tells it by a message. That is as a rule
// the same one everywhere, who then holds the lock without having asked. A waiter that was granted the name on
// too few nodes asks them all again, and lets those who are older come first where it was granted: so the votes
// go to the oldest, and nobody starves. Renewal needs a majority and never makes a key. What a minority that
// does not answer still has of a claim is removed in the background, or by its TTL.
//
// Permits are refused: majorities of permits need not meet. (Five nodes, two permits: A has one of nodes 1, 2, 3,
// B of 1, 4, 5, and C of 2, 3, 4, where nobody has the second.)
//
// # Tokens
//
// Of two holders of one name, the one that began after the other had succeeded has the greater token, and no token
// is given twice. This has nothing to do with exclusion: keys that expire too early or are deleted, holders that
// pause, requests that are late change none of it. Why that is so, and what it asks of a node that comes back without
// its data, stands in docs/design/redlock.md. TestModel searches all states of a small model of it.
//
// # The clients
//
// As package redis says of its client, and of what its user needs: the same commands, and LINSERT. There should be
// one user with these permissions on each node. A node whose user may not SUBSCRIBE or PUBLISH is named in the
// log; if too few are left a waiter is told so.
package redlock
