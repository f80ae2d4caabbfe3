// Package redlock is the locker backend for a majority of independent Redis servers.
//
//	l, err := redlock.New([]goredis.UniversalClient{a, b, c, d, e})
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//
// A lock is held by whoever has it on more than half of the nodes, so that fewer than half may be
// dead, slow or cut off, and nobody waits for them. The nodes are Redis masters, 6.2 or later, that
// know nothing of each other: not a Cluster, and none the replica of another. What this keeps and what
// it does not keep, beside a single Redis, etcd and ZooKeeper, stands in docs/redlock.md.
//
// # What is on the nodes
//
// The same as package redis has on its server, read and written by the same scripts: see there, and
// internal/redisnode/lua/lib.lua. Keys look like redlock:{qd7}:lock:orders/42, so that the two never meet
// under one prefix. A queue is in the order of the claims' ages here, which is the same on all nodes.
//
// # How it works
//
// A majority of the nodes is asked at once, for one name everywhere the same while all answer, and the
// others 20 ms later, or when the first are not of one mind. Each node grants the name, or puts the
// claim into its queue. redsync counts the votes. A node that has not answered within the node timeout
// is silent: it is not asked until it has answered a question of which nobody waits for the answer. A
// lock that is released within a millisecond has been on a majority only, and costs 6 requests to five
// nodes; one that is held for longer is taken on the others, too, and costs 10.
//
// A release makes, on each node, the first of the queue the holder, and tells it by a message. That is as
// a rule the same one everywhere, who then holds the lock without having asked. A waiter that was granted
// the name on too few nodes asks them all again, and lets those who are older come first where it was
// granted: so the votes go to the oldest, and nobody starves. Asleep, a waiter costs nothing. It looks by
// itself when the time of the holder should be over, when a subscription was interrupted, and every
// twenty seconds.
//
// Every request says until when, by the node's time, it may have an effect, and what was given up leaves a
// tombstone until then. Renewal needs a majority and never makes a key. What a minority that does not
// answer still has of a claim is removed in the background, or by its TTL.
//
// Permits are refused: majorities of permits need not meet. (Five nodes, two permits: A has one of nodes
// 1, 2, 3, B of 1, 4, 5, and C of 2, 3, 4, where nobody has the second.)
//
// # Tokens
//
// Names are hashed to 256 buckets, and every node keeps a clock for each: the greatest token written
// there. It never goes back and never expires. To write token t for a claim means, in one script: the
// claim holds the name on this node, and the clock is below t; then it is set to t. A claim is a holder with
// t when a majority has written t for it. Each first request, and each release for whoever comes next,
// proposes a token, 50 ms ahead of the nodes' time. If a majority wrote it, or another one that is the same
// for all of them, that was all. If not, in a second round the claim writes a token above all that it
// has seen. Spare tokens (locker.WithHandOver) are written with it.
//
// Of two holders of one name, the one that began after the other had succeeded has the greater token, and
// no token is given twice: their majorities have a node in common, on which both were written, and a clock
// only grows. Nothing was said of exclusion: keys that expire too early or are deleted, holders that
// pause, requests that are late change none of this. A node that comes back without its data has lost its
// clocks; but no token is below a node's time of day, nor more than about a second ahead of it. So this
// holds if the nodes' times differ by less than that node was away, less a second. The search through all
// states of a small model is TestModel.
//
// # The clients
//
// As package redis says of its client, and of what its user needs: the same commands, and LINSERT. There
// should be one user with these permissions on each node. A node whose user may not SUBSCRIBE or
// PUBLISH is named in the log; if too few are left a waiter is told so.
package redlock
