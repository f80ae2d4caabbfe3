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
// Every node keeps a clock for each bucket of names: the greatest token written there. It never goes back and
// never expires. To write token t for a claim means, in one script: the claim holds the name on this node, and
// the clock is below t; then it is set to t. A claim is a holder with t when a majority has written t for it.
// Each request, and each release for whoever comes next, proposes a token, 50 ms ahead of the nodes' time. If
// a majority wrote the same, that was all; if not, the claim proposes one above all that it has seen.
//
// Of two holders of one name, the one that began after the other had succeeded has the greater token, and no token
// is given twice: their majorities have a node in common, on which both were written, and a clock only grows.
// Nothing was said of exclusion: keys that expire too early or are deleted, holders that pause, requests that
// are late change none of this. A node that comes back without its data has lost its clocks; but no token is
// far below a node's time of day, nor more than about a second ahead of it. So this holds if the nodes' times
// differ by less than that node was away, less a second. The search through all states of a small model is
// TestModel.
//
// # The clients
//
// As package redis says of its client, and of what its user needs: the same commands, and LINSERT. There should be
// one user with these permissions on each node. A node whose user may not SUBSCRIBE or PUBLISH is named in the
// log; if too few are left a waiter is told so.
package redlock
