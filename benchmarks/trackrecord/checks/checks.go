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

	"github.com/seed80cd6120/locker/internal/faults"
)

// Check is one sentence, and how it is seen to be kept.
type Check struct {
	ID       string
	Sentence string
	// Claim is what a library has to claim for the check to be fair, Also what else.
	Claim, Also Claim
	Run         func(x *faults.Exam)
}

// Claim is something that a library does or does not offer; every lock claims the zero value.
type Claim string

const (
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
	Names    Claim = "any text as a name"
	Cleans   Claim = "nothing left after a release"
	Ends     Claim = "an end of the session with its client"
	Closes   Claim = "an error that says closed"
)

// ttl of the locks in checks; the longer one where nothing is to expire meanwhile.
const (
	short = 2 * time.Second
	long  = 15 * time.Second
)

// All are the checks in the order of the table.
var All = []Check{
	{ID: "excludes-itself", Run: users(long, excludesItself),
		Sentence: "Two goroutines with one client do not hold a name at once."},
	{ID: "neighbours", Run: users(long, neighbours),
		Sentence: `A lock on "x/b" is free while "x" is held.`},
	{ID: "names-independent", Run: users(long, namesIndependent),
		Sentence: "Waiting for one name does not delay another of the same client."},
	{ID: "tokens-rise", Claim: Tokens, Run: users(short, tokensRise),
		Sentence: "Every holder has a token, greater than those of all before."},
	{ID: "told-before-next", Claim: Told, Run: users(short, toldBeforeNext),
		Sentence: "A holder that is cut off is told of the loss before the next is granted the lock (20 holders)."},
	{ID: "first-look", Claim: Told, Run: users(short, firstLook),
		Sentence: "A holder whose process was stopped for longer than its lock lasted learns it at the first look (12 holders)."},
	{ID: "told-of-deletion", Claim: Deletes, Run: users(5*time.Second, toldOfDeletion),
		Sentence: "A holder whose lock was deleted by hand is told within two seconds."},
	{ID: "death-frees", Run: users(short, deathFrees),
		Sentence: "A killed holder's lock is free within its TTL and a second."},
	{ID: "no-ghost-lost-reply", Claim: Ctx, Run: users(long, noGhost),
		Sentence: "An acquisition whose reply was lost, and whose ctx ended, leaves nothing in the way of the next."},
	{ID: "no-ghost-cancelled", Claim: Ctx, Run: users(long, noGhostCancelled),
		Sentence: "Acquisitions cancelled half-way (100) leave nothing in the way of the next."},
	{ID: "lost-reply-repeated", Run: users(long, lostReply),
		Sentence: "An acquisition whose reply was lost once succeeds, or fails and leaves nothing."},
	{ID: "prompt-waiting", Claim: Ctx, Run: users(long, promptWaiting),
		Sentence: "A wait of one second ends within two, with the servers out of reach."},
	{ID: "prompt-cut-off-waiting", Claim: Ctx, Run: users(long, promptCutOffWaiting),
		Sentence: "A wait of two seconds that is cut off from the servers half-way ends within three."},
	{ID: "prompt-release", Claim: Releases, Run: users(long, promptRelease),
		Sentence: "A release with a ctx of one second returns within two, with the servers out of reach."},
	{ID: "ctx-error", Claim: CtxError, Run: users(long, ctxError),
		Sentence: "When the ctx of a wait ends, errors.Is finds context.DeadlineExceeded."},
	{ID: "release-not-anothers", Claim: Expires, Run: users(long, releaseNotAnothers),
		Sentence: "A release that comes after the loss does not free the next holder's lock."},
	{ID: "late-release-told", Claim: Knows, Run: users(long, lateReleaseTold),
		Sentence: "A release that comes after the loss says so."},
	{ID: "waiters-session", Claim: Session, Run: users(short, waitersSession),
		Sentence: "A waiter whose session died gets the lock or an error, and is not stuck."},
	{ID: "server-stalls", Run: users(short, serverStalls),
		Sentence: "When a server that stalled goes on, waiters get the lock, or an error, within ten seconds."},
	{ID: "black-hole", Claim: Majority, Run: users(long, blackHole),
		Sentence: "One server of five that accepts and never answers does not delay acquire and release by more than a second."},
	{ID: "node-forgets", Claim: Tokens, Run: users(long, nodeForgets),
		Sentence: "When servers forget a lock and another gets it, tokens tell the two apart."},
	{ID: "close-frees", Claim: Ends, Run: users(long, closeFrees),
		Sentence: "A client that is closed gives up at once what it held."},
	{ID: "foreign-entries", Claim: inTree, Run: users(long, foreignEntries),
		Sentence: "An entry in the queue that is not the library's own is waited for or passed over, and nothing panics."},
}
