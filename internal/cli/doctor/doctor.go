//go:build unix

// Package doctor examines servers: can they keep the promises of package locker? It opens clients of its own, by
// the URL that locker.Open would be given.
package doctor

import (
	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/cli"
	"github.com/seed80cd6120/locker/internal/openurl"
)

// Checks are the checks by the scheme of a URL.
var Checks = cli.Checks{
	"redis": checkRedis, "rediss": checkRedis,
	"redis+sentinel": checkRedis, "rediss+sentinel": checkRedis,
	"redis+cluster": checkRedis, "rediss+cluster": checkRedis,
	"redlock": checkRedLock, "redlocks": checkRedLock,
	"zookeeper": checkZooKeeper, "zookeepers": checkZooKeeper,
	"etcd": checkEtcd, "etcds": checkEtcd,
	"file": checkFile,
}

// read reads a URL.
func read(rawURL, port string, secure func(scheme string) bool) (*openurl.Server, error) {
	u, err := locker.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	s, err := openurl.Read(u, port, secure(u.Scheme))
	if err != nil {
		return nil, locker.InvalidOption(u.Scheme, err)
	}
	return s, nil
}
