// Package history records what the users of a lock saw, in several processes at
// once, and judges afterwards whether a lock that keeps its promises could have
// shown them that.
//
// Each process writes its own file with a [Recorder]: one event a line, each in
// one write, so that the file of a process that is killed ends with the last thing
// that happened to it. Times are of a clock that all processes of one machine
// share. [Read] puts the files of one run together into a [History].
//
// # What counts as holding
//
// The holder looks at its lock's context again and again, reading the clock before
// each look. A look that finds the context alive proves that the holder was
// entitled to believe in its lock at the moment read before. The last such moment
// is how far a holding is proven to reach; not the moment at which a goroutine was
// told of the loss, which on a loaded machine comes late through no fault of the
// lock. In the same way a holding begins when Acquire has returned, not before. Two
// proven holdings that overlap are therefore two users who each had every reason to
// believe that they were alone: the checks have no false positives.
//
// # Two checks
//
// [History.Check] asks porcupine whether the operations on each name can be put into
// one order that the specification of a lock with tokens allows. [History.Sweep]
// finds overlaps and tokens out of order in one pass, and says by how many
// milliseconds. They look at the same history from two sides; a run is good when
// both say so.
//
// Faults that take a holding away at the server (a key deleted by hand, a failover to
// a replica that never saw it) are recorded as events that destroy. Exclusion cannot
// be asked of a holding that was destroyed until its holder has been told; the order
// of tokens still is. Both checks make that difference.
package history
