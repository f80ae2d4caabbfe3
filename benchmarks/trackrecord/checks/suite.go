package checks

// What is asked of others beside the checks.

// Suite are those cases of the conformance suite that ask for nothing but what the claims
// say, so that it is fair to put them to others.
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
	{ID: "Loss/RepliesLost", Claim: Told, Sentence: "A holder that hears nothing is told of the loss, though the server may hear it."},
	{ID: "Loss/StaysLost", Claim: Told, Sentence: "A lock that is lost stays lost."},
	{ID: "Loss/ServerGone", Claim: Told, Sentence: "A holder whose server is away is told at its deadline."},
	{ID: "Loss/StoppedProcess", Claim: Told, Sentence: "A process that was stopped and goes on learns of the loss at the first look."},
	{ID: "Loss/Destroyed", Claim: Deletes, Sentence: "A holder whose lock is removed by hand is told within a second."},
	{ID: "Loss/DestroyedOfMany", Claim: Deletes, Sentence: "... and loses no other."},
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
	{ID: "Prompt/FinishedContext", Claim: CtxError, Also: Tries, Sentence: "A call whose ctx has already ended returns its error at once and takes nothing."},
	{ID: "Prompt/QueuedGoroutine", Claim: CtxError, Sentence: "So does that of a goroutine behind others of its client."},
	{ID: "Prompt/AcquireOverFrozenLink", Claim: CtxError, Sentence: "So does an acquisition to which the network is silent."},
	{ID: "Prompt/TryOverFrozenLink", Claim: CtxError, Sentence: "So does a try to which the network is silent."},
	{ID: "Prompt/WaiterOverFrozenLink", Claim: CtxError, Sentence: "So does a waiter to whom the network falls silent."},
	{ID: "Prompt/ReleaseOverFrozenLink", Claim: Releases, Sentence: "So does a release."},
	{ID: "Cheap/WokenByTheServer", Claim: Wakes, Sentence: "Waiters are woken by the server, not by looking again after a while."},
	{ID: "Cheap/IdleWaiters", Claim: Wakes, Sentence: "Waiting costs the server next to nothing."},
	{ID: "Cheap/NoHerd", Claim: OneByOne, Sentence: "A release wakes one waiter and not the herd."},
	{ID: "Fair/Lockers", Claim: Queues, Sentence: "Waiters get the lock in the order of arrival."},
	{ID: "Fair/Goroutines", Claim: Queues, Sentence: "So do the goroutines of one client."},
	{ID: "Fair/NobodyStarves", Claim: Queues, Sentence: "Everybody who wants the lock gets it in the end."},
	{ID: "Fair/NoBarging", Claim: Queues, Sentence: "A holder that releases and asks again queues behind those who waited."},
	{ID: "Fair/TryDoesNotOvertake", Claim: Queues, Also: Tries, Sentence: "A try does not overtake those who wait."},
	{ID: "Fair/Shares", Claim: Queues, Sentence: "Those who always want the lock get it equally often."},
	{ID: "Many/WaitedNameDelaysNoOther", Sentence: "A name that is waited for never delays another."},
	{ID: "Many/TwoNamesWaited", Sentence: "Nor another that is waited for."},
	{ID: "Many/NamesWaitedAtOnce", Sentence: "However many names are waited for, they delay no other."},
	{ID: "Many/NamesHeldAtOnce", Claim: Tries, Sentence: "One client holds any number of names."},
	{ID: "Many/Stress", Sentence: "Any number of goroutines and names: each name has one holder at a time."},
	{ID: "Many/NotReentrant", Claim: Tries, Sentence: "Acquiring a name again with the same client waits like any other."},
	{ID: "Names/Prefixes", Sentence: "Distinct names never meet, also when one begins with the other."},
	{ID: "Names/Random", Claim: Names, Also: Tries, Sentence: "Any text is a name, and distinct names never meet."},
	{ID: "Names/Odd", Claim: Names, Also: Tries, Sentence: "So are those that somebody has stumbled over somewhere."},
	{ID: "Names/Longest", Claim: Names, Also: Tries, Sentence: "So is any of up to 1,024 bytes."},
	{ID: "Release/OtherGoroutine", Sentence: "A lock may be released by another goroutine than the one that took it."},
	{ID: "Release/OnlyItsName", Claim: Tries, Sentence: "Release frees only this holding, not those of other names."},
	{ID: "Release/TwiceOwnSuccessor", Claim: Tries, Sentence: "A second release does not free the next holding of the same client."},
	{ID: "Release/AcquireContextEnded", Claim: Ctx, Sentence: "A lock can be released when the ctx by which it was taken has ended."},
	{ID: "Release/FreesForAll", Claim: Tries, Sentence: "What was released can be taken by anybody."},
	{ID: "Errors/FreeIsNotTaken", Claim: Tries, Sentence: "A try of a name that nobody has ever used finds it free."},
	{ID: "Outage/HolderSurvivesCut", Claim: Tries, Sentence: "A holder whose connections are cut, and can be made again in time, keeps the lock and can release it."},
	{ID: "Outage/MissedWakeUp", Sentence: "A waiter that was cut off, silently, when the lock was released gets it when the network is back."},
	{ID: "Outage/LostAndGoesOn", Claim: Told, Also: Expires, Sentence: "A client that was cut off and lost its locks works as before when the network is back."},
	{ID: "Outage/WorksAfterwards", Claim: Told, Also: Expires, Sentence: "So does one whose server was away."},
	{ID: "Litter/UsedNames", Claim: Cleans, Sentence: "After use nothing is left on the server that grows with the number of names."},
	{ID: "Litter/Contention", Claim: Cleans, Also: Ctx, Sentence: "Nor is there of those who waited and of those who gave up."},
	{ID: "Litter/Dead", Claim: Cleans, Sentence: "Nor of processes that were killed while they held and waited, when their time is over."},
	{ID: "Litter/GoroutinesOfNames", Sentence: "Nor is a goroutine left in the client."},
	{ID: "Litter/GoroutinesOfWaiters", Claim: Ctx, Sentence: "Nor one of acquisitions that were cancelled."},
	{ID: "Close/Unused", Sentence: "A client that was never used can be closed."},
	{ID: "Close/LeavesOthers", Sentence: "A client that is closed leaves others alone."},
	{ID: "Close/EndsWaiters", Claim: Closes, Sentence: "Waiters of a client that is closed are told so."},
	{ID: "Close/UseAfterwards", Claim: Closes, Sentence: "So is who uses it afterwards."},
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
	{ID: "row/41-cut-every-50ms", Claim: Ctx, Sentence: "Work goes on while connections are cut again and again, and no call is late."},
	{ID: "row/43-killed", Sentence: "The next holder has a killed holder's lock within TTL and a second."},
	{ID: "row/45-two-nodes-dead", Claim: Majority, Sentence: "Locks are taken, kept and given back with three servers of five."},
}

// Absence is why some cases are not put to others. "Lead/*" is all of a group.
type Absence struct {
	Why   string
	Cases []string
}

// Unasked are the cases of the suite that are not put to others. Together with Suite they
// are the whole of it.
var Unasked = []Absence{
	{"a lease is asked for by an option of this project", []string{
		"Death/Lease", "Death/TryAfterLease", "Exclusion/Leased", "Fencing/AfterExpiry", "Litter/Expired", "Litter/GoroutinesOfLost",
		"Loss/CauseStays", "Loss/Deadline", "Loss/DestroyedLease", "Loss/Do", "Loss/DoFails", "Loss/DoneAndErrAgree", "Loss/Lease", "Loss/LookTellsTime", "Release/AfterLease"}},
	{"it wants the errors of this project", []string{
		"Errors/Fields", "Errors/Misconfigured", "Errors/ReleaseUnreachable", "Errors/ServerGone", "Errors/Unreachable",
		"Ghosts/InvalidCalls", "Loss/CauseReleased", "Names/Invalid", "Prompt/Cause",
		"Release/AfterDestroy", "Release/AfterTakeover", "Release/DestroyedUnseen"}},
	{"it wants options and arguments of this project refused or heeded", []string{
		"Errors/NothingSent", "Errors/Options", "Errors/Owner", "Fencing/Unclaimed", "Loss/ContextOfCaller", "Names/Name"}},
	{"it wants fencing tokens", []string{
		"Fencing/AfterDestroy", "Fencing/AfterRestart", "Fencing/AfterTakeover", "Fencing/Contended", "Fencing/Distinct", "Fencing/ManyLockers", "Fencing/OneLocker", "Fencing/Steady"}},
	{"it wants other locks than exclusive ones", []string{"Shared/*", "Permits/*", "Mixed/*", "Downgrade/*", "Death/KilledBetween", "Ghosts/CancelledBetween"}},
	{"it is about what this project has besides", []string{
		"AtLeast/*", "Evict/*", "HandOver/*", "Inspect/*", "Lead/*", "Reentry/*", "Several/*", "Wanted/*", "Within/*"}},
	{"it wants Close to give back, to have a ctx, or to end the calls that are under way", []string{
		"Close/EndedContext", "Close/InTheMiddle", "Close/ReleasesHeld", "Close/StopsGoroutines", "Close/Unreachable",
		"Ghosts/ClosedWhileWaiting", "Litter/ClosedLockers", "Prompt/CloseOverFrozenLink", "Release/AfterClose"}},
	{"it wants a client of its own TTL to be cut off, which the adapters open with one TTL", []string{"Death/Successor", "Loss/LateAnswer", "Loss/OldGrant"}},
	{"it wants patience where an error is as good an answer", []string{
		"Exclusion/Restart", "Outage/AcquireMeanwhile", "Outage/CutAgainAndAgain", "Outage/CutWaiter", "Outage/FrozenWaiter", "Outage/HolderKeeps", "Outage/WaitersGoOn",
		"Prompt/AcquireOverCutLink", "Prompt/ServerGone"}},
	{"it wants a release to be harmless again and again, by many at once, and after the end of its ctx", []string{
		"Release/EndedContext", "Release/ManyAtOnce", "Release/Twice"}},
	{"it wants no more than one goroutine of a process to wait at the server", []string{"Cheap/GoroutinesWaitAtHome"}},
	{"the adapter renews with a goroutine for each lock", []string{"Litter/GoroutinesOfHeld"}},
}

// UnaskedRows are the rows of package faults that are not put to others, in the same way.
var UnaskedRows = []Absence{
	{"it wants fencing tokens to tell two holders apart", []string{
		"18-restarts-empty", "19-failover-before-replication", "20-node-restarts-empty", "21-clock-jump", "32-all-restarted", "44-failover"}},
	{"it wants patience where an error is as good an answer", []string{
		"10-waiters-session-dies", "16-compaction", "22-servers-stall", "28-cluster-down", "37-slot-migrated"}},
	{"it wants errors or options of this project", []string{
		"26-eviction", "27-out-of-memory", "28-refusals", "29-credentials", "29-tls", "29-tls-to-plain-port", "30-out-of-space",
		"31-quorum-lost", "38-bad-arguments", "39-out-of-order", "40-twice-in-one-process", "42-machine-suspended"}},
	{"it knows where this project's queues are", []string{"34-parent-deleted", "35-numbers-used-up", "35-foreign-children", "36-prefixes"}},
	{"it needs several servers with a leader, and others have one here", []string{"14-leader-stopped", "15-leader-moved", "33-leader-killed"}},
	{"it asks for a time that is not claimed", []string{"12-session-closed-from-elsewhere", "13-partition-3s"}},
	{"it wants other locks than exclusive ones", []string{"46-reader-killed", "47-writer-behind-dead-readers", "48-permits-after-failover"}},
	{"it is about what this project has besides", []string{"49-cut-off-while-handing-over", "50-evicted-too-late", "51-leader-deposed", "52-one-of-several-lost"}},
	{"it is another row with more holders, to measure", []string{"03-many-cut-off", "43-many-killed"}},
}
