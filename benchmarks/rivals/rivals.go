// Package rivals opens the lock libraries that this project is compared with. Each
// is used as its own documentation says; where that leaves a choice, the file of the
// library says which was made and why, and the report repeats it.
//
// The same clients serve the comparison and, behind package suite, the conformance suite.
package rivals

import "github.com/seed80cd6120/locker/benchmarks/contender"

// All returns the rivals in Go in the order of the report.
func All() []contender.Contender {
	redis5, zooKeeper1 := contender.Redis1.Of(5), contender.ZooKeeper1
	return contender.List(contender.Rival,
		[]contender.Contender{redislockContender, rueidislockContender},
		redsyncContender.On(contender.Redis1, redis5, redis5.But(contender.BlackHole)),
		zkLockContender.On(zooKeeper1, zooKeeper1.But(contender.NoSync), zooKeeper1.Of(3)),
		etcdMutexContender.On(contender.Etcd1, contender.Etcd1.Of(3)),
		[]contender.Contender{pglockContender},
	)
}
