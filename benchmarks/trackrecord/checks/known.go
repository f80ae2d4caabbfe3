package checks

// Known are breaks that were seen on these libraries before there was this table, each
// with the test that shows it.
var Known = []struct{ What, Test string }{
	{"go-redis: a ctx does not end a call that was sent", "TestTrack/redislock/prompt-release"},
	{"go-redis: a write whose reply was lost is sent again, and finds its own key in the way", "TestConformance/redislock/Ghosts/ReplyLostOfTry"},
	{"redsync: the end of a ctx comes back as another error", "TestTrack/redsync-1/ctx-error"},
	{"redsync: one server of five that hangs stalls every acquisition", "TestTrack/redsync-5/black-hole"},
	{"redsync: an acquisition whose reply was lost leaves its keys", "TestTrack/redsync-5/no-ghost-lost-reply"},
	{"rueidislock: a context is alive at the first look after a pause", "TestTrack/rueidislock/first-look"},
	{"concurrency.Mutex: two goroutines of one session both hold", "TestTrack/etcd.Mutex-1/excludes-itself"},
	{`concurrency.Mutex: "x" is not free while "x/b" is held`, "TestTrack/etcd.Mutex-1/neighbours"},
	{"concurrency.Mutex: an acquisition whose reply was lost leaves a key that the session keeps alive", "TestTrack/etcd.Mutex-1/no-ghost-lost-reply"},
	{"concurrency.Mutex: an acquisition that was cancelled leaves its key", "TestTrack/etcd.Mutex-1/no-ghost-cancelled"},
	{"concurrency.Mutex: Lock cleans up under the client's ctx and returns long after the caller's", "TestTrack/etcd.Mutex-1/prompt-cut-off-waiting"},
	{"concurrency.Mutex: Unlock after the lease was revoked says nil", "TestTrack/etcd.Mutex-1/late-release-told"},
	{"concurrency.Session: Done comes after the next holder was granted the lock", "TestTrack/etcd.Mutex-1/told-before-next"},
	{"concurrency.Session: a context is alive at the first look after a pause", "TestTrack/etcd.Mutex-1/first-look"},
	{"zk.Lock: panics at a child that is not its own", "TestTrack/zk.Lock-1/foreign-entries"},
}
