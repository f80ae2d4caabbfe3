// Package redlock takes locks on a majority of independent Redis servers.
//
//	l, err := redlock.New([]redis.UniversalClient{a, b, c, d, e})
//	lock, err := l.Acquire(ctx, "orders/42")
//	defer lock.Release(ctx)
//	store.Write(lock.Context(), lock.Token(), value)
//
// A lock is held by whoever has it on more than half of the nodes, so that fewer
// than half may be dead, slow or cut off, and nobody waits for them. The nodes
// are Redis masters that know nothing of each other: not a Cluster, and none the
// replica of another. What this keeps and what it does not keep, beside a single
// Redis, etcd and ZooKeeper, stands in docs/redlock.md.
//
// # Whom it asks
//
// A majority of the nodes is asked at once, for one name everywhere the same while all
// answer, and the others a millisecond later, or as soon as one of the first does
// not say yes. A lock that is released within that millisecond has never been on more
// than the majority, and costs six requests to five nodes; one that is held longer is on
// all that can be reached, and costs ten. A node that is slow, that hangs or that has
// just failed is asked last.
//
// # Waiting
//
// Who finds the lock taken is put into a queue by the same request: that of the majority
// asked first, if these agree on who has it, or else that of every node. A release hands
// the lock, on each node, to the first in its queue, and the node tells that one in the
// same breath; the queues are in the order in which the waiters began, so as a rule it is
// the same everywhere and that one hears it from a majority at once. It then takes the
// lock on the other nodes too, unless it has released it within a millisecond. Who is
// handed the lock by too few asks all nodes a moment later, and where no majority
// agrees, who began later gives way. Asleep, a waiter asks one node every few seconds
// whether it has been forgotten, and all of them every twelve, so that no message that is
// lost costs more. Waiting is not fair in the strict sense, but nobody starves: the older
// a claim the more it comes first.
//
// # What is redsync's part and what is ours
//
// What a majority seems to have answered, for the lock or for the token, is counted by a
// redsync.Mutex that is made for it, over an adapter of ours for its pools and connections:
// what is a quorum, and what the answer then is. It is asked when the answers are there.
// (Of a release there is nothing to decide: it is told what was ours.) Before the adapter,
// and behind it, are the things on which redsync cannot be relied: whom to ask when, and
// for how long; that what was granted is still valid, counted from before the question; the
// scripts, which recognise a lock as one's own; a bound for each node that holds whatever
// the client library does; undoing, which does not depend on the caller's context; tokens;
// who said what; waiting. Locks that are held are renewed in batches, without redsync, and
// a renewal never makes a lock. A Mutex is used by the goroutine that made it and by nobody
// else.
//
// Requests to a node go out in order, one batch at a time, and go-redis is kept from
// repeating them. An answer therefore means that a request was carried out once and that
// no copy of it is under way. Where there was no answer, what undoes it leaves a mark on
// the node by which the request is known should it still arrive.
//
// Without tokens, a claim whose name is expected to be free asks the nodes that are asked
// first with a plain SET NX, as redsync does, and with the script if too few said yes. The
// plain one does not see the mark. Where it arrives late and finds the lock free its key
// blocks nobody: who is refused because of it sees the mark, by the script, and puts its own
// value there. This takes nothing from a holder, for a mark is made only when a claim is
// released or has been given up, and no claim is used twice. Nor does the key stay: where a
// mark was made it is looked for and removed, for a minute, at growing intervals.
// Nobody else is misled. Renewal, the second round and a release do something only where a
// claim finds its own key, a plain bid stands in no queue, and a waiter is told of a key by the
// script only. If that key came before its mark, what makes the mark takes it away, and
// hands the lock to the first who waits.
//
// # Tokens
//
// Names are hashed to 1,024 buckets, and every node keeps a clock for each: the
// greatest token that was written there. A clock never goes back and never expires.
// To write token t for a claim on a node means, in one script: the node's lock is this
// claim's, and its clock is below t; then the clock is set to t. A claim is successful
// with t when a majority of the nodes has written t for it.
//
// A claim that finds the locks free proposes a guess, the nodes' time as far as it
// knows it and a little more, and each node writes it if it can. If a majority did,
// that was all. If not, the nodes have answered their clocks, and in a second round
// the claim writes a token above all of them. If too few nodes take that, because
// others have meanwhile written greater ones, it is raised and tried again a few times,
// and then everything is given back. A holder that hands the lock over writes the
// token of its successor in the same way.
//
// Of two successful claims of one name, the one that began after the other had succeeded
// has the greater token, and no token is given twice:
//
//   - The two majorities have a node in common. On it both tokens were written. A write
//     makes the clock greater, so the token that was written later is the greater, and
//     they are never equal.
//   - If B began after A was successful, every write for A had been made before the
//     first for B. So B's token is the greater.
//   - Nothing was said of the locks' being exclusive: keys that expired too early, that
//     were deleted by hand, holders that were paused, replies and requests that were
//     lost or late change none of this, because the clocks do not expire.
//   - Names that share a bucket only make its clock go faster.
//
// # Assumptions
//
// That a node keeps its clocks is the one assumption that matters. A node that
// restarts without its data forgets them. That is why they are not counters: a node
// takes no guess that is below its time of day, and answers that time along with its clock.
// Tokens are at most about a second ahead of the nodes' times. So the argument also
// holds across a node that comes back empty if the nodes' times of day differ by less
// than it was away, less that second. Let a node that lost its data come back only
// after the longest TTL in use, which exclusion demands anyway, and clocks may differ
// by that much.
//
// The argument is checked by a search through all states of a small model
// (TestModel), which also finds the shortcuts that do not work
// (TestModelOfBrokenVariants), and on real servers that lose keys and restart empty
// under load (TestTokensUnderFaults).
//
// Exclusion, other than the order of tokens, assumes what RedLock assumes: that the
// nodes' clocks run at a like rate and do not jump, that a node that comes back without
// its data was away for a TTL, and that a holder heeds its lock's Context.
package redlock
