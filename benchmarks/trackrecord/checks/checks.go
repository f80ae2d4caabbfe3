// Package checks holds lock libraries, those of others and this project's, to
// sentences that each can be kept or broken, and that a program can see. They are
// what docs/track-record.md is made of; the command one folder up makes it.
//
//	LOCKER_TRACK=1 go test ./trackrecord/checks -run 'TestTrack/etcd.Mutex-1/neighbours' -v
//
// A check is run on a library only if the library claims what the check asks, in its
// documentation or by its signatures: one that takes a context claims to return when it
// ends. What is not claimed is "not offered". Each library is used as its
// documentation says, through the adapters of the comparison.
package checks

import (
	"time"

	"github.com/seed80cd6120/locker/faults"
)

// Check is one sentence, and how it is seen to be kept.
type Check struct {
	ID       string
	Sentence string
	// Claim is what a library has to claim for the check to be fair.
	Claim Claim
	// Row is that of package faults on the same subject, 0 if there is none.
	Row int
	Run func(x *faults.Exam)
}

// Claim is something that a library does or does not offer.
type Claim string

const (
	Basic    Claim = ""                   // every lock claims it
	Ctx      Claim = "a context"          // calls return when their ctx ends
	CtxError Claim = "the ctx's error"    // ... with an error by which one knows that
	Releases Claim = "a release with ctx" // Release takes a ctx and returns an error
	Told     Claim = "a signal of loss"
	Tokens   Claim = "fencing tokens"
	Majority Claim = "several servers" // of which a minority may fail
	Session  Claim = "sessions"        // waiters live by one
	Knows    Claim = "an error from a release that came too late"
	Deletes  Claim = "notice of a lock deleted by hand"
	Expires  Claim = "locks that expire by the server's clock"
	Wakes    Claim = "waiters that are woken by the server"
	OneByOne Claim = "waiters that are woken one by one"
	Tries    Claim = "a try that does not wait"
	Queues   Claim = "the order of arrival"
)

// Suite are those cases of the conformance suite that ask for nothing but what the claim
// says, so that it is fair to put them to others. The rest of the suite is about what
// only this project promises: its errors and options, leases, Close, litter, odd names, and
// going on by itself after an outage. Left out is also what asks for a time to the
// millisecond, or for patience where an error is as good an answer.
var Suite = []Check{
	{ID: "Exclusion/Goroutines", Sentence: "Goroutines that share a client never hold a name at once, and all get on."},
	{ID: "Exclusion/Lockers", Sentence: "Separate clients never hold a name at once, and all get on."},
	{ID: "Exclusion/Processes", Sentence: "Separate processes never hold a name at once, and all get on."},
	{ID: "Exclusion/Disturbed", Claim: Ctx, Sentence: "Nor do they when others give up and time out at random moments."},
	{ID: "Exclusion/TryOfHeld", Claim: Tries, Sentence: "A try takes the name if it is free, and says so if it is not."},
	{ID: "Exclusion/AcquireOfHeld", Sentence: "Who asks for a name that is held waits until it is free."},
	{ID: "Exclusion/RenewedWhileHeld", Claim: Tries, Sentence: "Nobody else gets the name of a live holder, however long it holds (renewed by the adapter where that is left to the user)."},
	{ID: "Exclusion/WaitedLockIsRenewed", Claim: Tries, Sentence: "The same for a lock that was waited for."},
	{ID: "Death/KilledHolder", Sentence: "A holder that is killed frees its lock within TTL and a second; waiters go on."},
	{ID: "Death/KilledHolderOfMany", Sentence: "... all of its locks."},
	{ID: "Death/KilledWaiter", Sentence: "A waiter that is killed is passed over within TTL and a second."},
	{ID: "Death/KilledAtRandom", Sentence: "A process that is killed at any moment frees its locks within TTL and a second."},
	{ID: "Death/Silence", Sentence: "A holder that is cut off for good frees its locks within TTL and a second."},
	{ID: "Loss/Frozen", Claim: Told, Sentence: "A holder that is cut off, silently, is told before the next is granted the lock."},
	{ID: "Loss/Cut", Claim: Told, Sentence: "A holder whose connections are cut is told before the next is granted the lock."},
	{ID: "Loss/StoppedProcess", Claim: Told, Sentence: "A process that was stopped and goes on learns of the loss at the first look."},
	{ID: "Loss/Destroyed", Claim: Deletes, Sentence: "A holder whose lock is removed by hand is told within a second."},
	{ID: "Loss/NotRenewedBack", Claim: Deletes, Sentence: "A renewal never brings back a lock that is gone."},
	{ID: "Ghosts/CancelledWaiter", Claim: Ctx, Sentence: "A waiter that was cancelled leaves nothing behind and never becomes a holder later."},
	{ID: "Ghosts/CancelledInFront", Claim: Ctx, Sentence: "A waiter that gives up lets those behind it go on at once."},
	{ID: "Ghosts/CancelledAtRandom", Claim: Ctx, Sentence: "An acquisition that returned an error leaves nothing behind, whenever its ctx ended."},
	{ID: "Ghosts/CancelledWhenGranted", Claim: Ctx, Sentence: "One that is cancelled at the moment of its turn has the lock or leaves nothing behind."},
	{ID: "Ghosts/DeadlineInFlight", Claim: Ctx, Sentence: "An acquisition whose time ran out while the server was being asked leaves nothing behind."},
	{ID: "Ghosts/QueuedGoroutine", Claim: CtxError, Sentence: "A goroutine that gives up behind another of its client takes no turn later."},
	{ID: "Ghosts/ReplyLost", Claim: Ctx, Sentence: "An acquisition whose reply was lost leaves nothing behind."},
	{ID: "Ghosts/ReplyLostOfTry", Claim: Tries, Sentence: "A try whose reply was lost leaves nothing behind."},
	{ID: "Ghosts/CleaningFails", Claim: Ctx, Sentence: "If the cleaning up fails it is tried again."},
	{ID: "Ghosts/FailedTries", Claim: Tries, Sentence: "A try that found the name taken leaves nothing behind."},
	{ID: "Ghosts/ServerRestarts", Claim: Ctx, Sentence: "An acquisition that failed because of a server restart leaves nothing behind."},
	{ID: "Prompt/Deadline", Claim: CtxError, Sentence: "A wait ends within 100 ms of its deadline, with the ctx's error."},
	{ID: "Prompt/Cancel", Claim: CtxError, Sentence: "A wait ends within 100 ms of being cancelled, with the ctx's error."},
	{ID: "Prompt/QueuedGoroutine", Claim: CtxError, Sentence: "So does that of a goroutine behind others of its client."},
	{ID: "Prompt/AcquireOverFrozenLink", Claim: CtxError, Sentence: "So does an acquisition to which the network is silent."},
	{ID: "Prompt/TryOverFrozenLink", Claim: CtxError, Sentence: "So does a try to which the network is silent."},
	{ID: "Prompt/WaiterOverFrozenLink", Claim: CtxError, Sentence: "So does a waiter to whom the network falls silent."},
	{ID: "Prompt/ReleaseOverFrozenLink", Claim: Releases, Sentence: "So does a release."},
	{ID: "Cheap/WokenByTheServer", Claim: Wakes, Sentence: "Waiters are woken by the server, not by looking again after a while."},
	{ID: "Cheap/IdleWaiters", Claim: Wakes, Sentence: "Waiting costs the server next to nothing."},
	{ID: "Cheap/NoHerd", Claim: OneByOne, Sentence: "A release wakes one waiter and not the herd."},
	{ID: "Fair/Lockers", Claim: Queues, Sentence: "Waiters get the lock in the order of arrival."},
	{ID: "Fair/NoBarging", Claim: Queues, Sentence: "A holder that releases and asks again queues behind those who waited."},
	{ID: "Fair/Shares", Claim: Queues, Sentence: "Those who always want the lock get it equally often."},
	{ID: "Many/WaitedNameDelaysNoOther", Sentence: "A name that is waited for never delays another."},
	{ID: "Many/TwoNamesWaited", Sentence: "Nor another that is waited for."},
	{ID: "Many/NamesHeldAtOnce", Claim: Tries, Sentence: "One client holds any number of names."},
	{ID: "Many/Stress", Sentence: "Any number of goroutines and names: each name has one holder at a time."},
	{ID: "Many/NotReentrant", Claim: Tries, Sentence: "Acquiring a name again with the same client waits like any other."},
	{ID: "Names/Prefixes", Sentence: "Distinct names never meet, also when one begins with the other."},
	{ID: "Release/OtherGoroutine", Sentence: "A lock may be released by another goroutine than the one that took it."},
	{ID: "Release/OnlyItsName", Claim: Tries, Sentence: "Release frees only this holding, not those of other names."},
	{ID: "Release/FreesForAll", Claim: Tries, Sentence: "What was released can be taken by anybody."},
}

// Rows are those rows of package faults that are fair in the same way. ID is "row/" and the
// row's title; what is seen is what docs/faults.md says.
var Rows = []Check{
	{ID: "row/01-paused", Claim: Told, Sentence: "A holder that was stopped learns of the loss at its first look."},
	{ID: "row/02-stale-look", Claim: Told, Sentence: "Context().Err() is set at the first look after a pause around the deadline."},
	{ID: "row/03-cut-off", Claim: Told, Sentence: "A holder that is cut off is told before the next is granted the lock."},
	{ID: "row/04-replies-lost", Claim: Told, Sentence: "A holder to whom no replies come loses the lock at its own deadline."},
	{ID: "row/05-requests-lost", Claim: Told, Sentence: "A holder whose requests are lost loses the lock at its own deadline."},
	{ID: "row/06-acquired-unheard", Claim: CtxError, Sentence: "An acquisition whose reply is lost ends with the error of its ctx and leaves nothing."},
	{ID: "row/07-acquired-unheard-recovery-cut", Claim: CtxError, Sentence: "The same, with the connection cut again and again afterwards."},
	{ID: "row/08-release-with-servers-dead", Claim: Releases, Sentence: "A release with the servers dead returns by its ctx, with an error."},
	{ID: "row/09-waiting-out-of-reach", Claim: CtxError, Sentence: "A wait with the servers out of reach returns by its ctx, with its error."},
	{ID: "row/11-removed-by-hand", Claim: Deletes, Sentence: "A holder whose lock is removed by hand is told within a second."},
	{ID: "row/17-release-before-watch", Sentence: "No waiter misses a release, whenever it comes."},
	{ID: "row/23-node-black-holed", Claim: Majority, Sentence: "One node of five that is black-holed delays nothing."},
	{ID: "row/24-renewal-brings-nothing-back", Claim: Expires, Sentence: "A lock that is lost stays lost, and its name is free."},
	{ID: "row/25-cancelled-anywhere", Claim: CtxError, Sentence: "Acquisitions cancelled at any point leave nothing, and nobody is granted the lock later."},
	{ID: "row/43-killed", Sentence: "The next holder has a killed holder's lock within TTL and a second."},
}

// ttl of the locks in checks; the longer one where nothing is to expire meanwhile.
const (
	short = 2 * time.Second
	long  = 15 * time.Second
)

// All are the checks in the order of the table.
var All = []Check{
	{ID: "excludes-itself", Row: 40, Run: excludesItself,
		Sentence: "Two goroutines with one client do not hold a name at once."},
	{ID: "neighbours", Row: 36, Run: neighbours,
		Sentence: `A lock on "x/b" is free while "x" is held.`},
	{ID: "names-independent", Run: namesIndependent,
		Sentence: "Waiting for one name does not delay another of the same client."},
	{ID: "tokens-rise", Claim: Tokens, Run: tokensRise,
		Sentence: "Every holder has a token, greater than those of all before."},
	{ID: "told-before-next", Claim: Told, Row: 3, Run: toldBeforeNext,
		Sentence: "A holder that is cut off is told of the loss before the next is granted the lock (20 holders)."},
	{ID: "first-look", Claim: Told, Row: 2, Run: firstLook,
		Sentence: "A holder whose process was stopped for longer than its lock lasted learns it at the first look (12 holders)."},
	{ID: "told-of-deletion", Claim: Deletes, Row: 11, Run: toldOfDeletion,
		Sentence: "A holder whose lock was deleted by hand is told within two seconds."},
	{ID: "death-frees", Row: 43, Run: deathFrees,
		Sentence: "A killed holder's lock is free within its TTL and a second."},
	{ID: "no-ghost-lost-reply", Claim: Ctx, Row: 6, Run: noGhost,
		Sentence: "An acquisition whose reply was lost, and whose ctx ended, leaves nothing in the way of the next."},
	{ID: "no-ghost-cancelled", Claim: Ctx, Row: 25, Run: noGhostCancelled,
		Sentence: "Acquisitions cancelled half-way (100) leave nothing in the way of the next."},
	{ID: "lost-reply-repeated", Run: lostReply,
		Sentence: "An acquisition whose reply was lost once succeeds, or fails and leaves nothing."},
	{ID: "prompt-waiting", Claim: Ctx, Row: 9, Run: promptWaiting,
		Sentence: "A wait of one second ends within two, with the servers out of reach."},
	{ID: "prompt-cut-off-waiting", Claim: Ctx, Row: 9, Run: promptCutOffWaiting,
		Sentence: "A wait of two seconds that is cut off from the servers half-way ends within three."},
	{ID: "prompt-release", Claim: Releases, Run: promptRelease,
		Sentence: "A release with a ctx of one second returns within two, with the servers out of reach."},
	{ID: "ctx-error", Claim: CtxError, Run: ctxError,
		Sentence: "When the ctx of a wait ends, errors.Is finds context.DeadlineExceeded."},
	{ID: "release-not-anothers", Claim: Expires, Run: releaseNotAnothers,
		Sentence: "A release that comes after the loss does not free the next holder's lock."},
	{ID: "late-release-told", Claim: Knows, Run: lateReleaseTold,
		Sentence: "A release that comes after the loss says so."},
	{ID: "waiters-session", Claim: Session, Row: 10, Run: waitersSession,
		Sentence: "A waiter whose session died gets the lock or an error, and is not stuck."},
	{ID: "server-stalls", Row: 22, Run: serverStalls,
		Sentence: "When a server that stalled goes on, waiters get the lock, or an error, within ten seconds."},
	{ID: "black-hole", Claim: Majority, Row: 23, Run: blackHole,
		Sentence: "One server of five that accepts and never answers does not delay acquire and release by more than a second."},
	{ID: "node-forgets", Claim: Tokens, Row: 20, Run: nodeForgets,
		Sentence: "When servers forget a lock and another gets it, tokens tell the two apart."},
	{ID: "foreign-entries", Claim: "a queue in a shared tree", Run: foreignEntries,
		Sentence: "An entry in the queue that is not the library's own does no harm."},
}
