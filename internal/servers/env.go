package servers

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The variables in which addresses of servers that run already are given.
const (
	EnvRedis     = "LOCKER_REDIS"
	EnvZooKeeper = "LOCKER_ZOOKEEPER"
	EnvEtcd      = "LOCKER_ETCD"
)

// givenAddrs returns the addresses in a variable, if there are at least n.
func givenAddrs(env string, n int) ([]string, bool) {
	var addrs []string
	for a := range strings.SplitSeq(os.Getenv(env), ",") {
		if a = strings.TrimSpace(a); a != "" {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) < n || n == 0 {
		return nil, false
	}
	return addrs[:n], true
}

// find looks a program up. What to run where it is missing is the same everywhere.
func find(bin, env string) (string, error) {
	path, err := exec.LookPath(bin)
	if err != nil {
		return "", missing(bin, env)
	}
	return path, nil
}

func missing(what, env string) error {
	return fmt.Errorf(`%w: %s not found: run "make setup" (or give the addresses of running servers in %s)`, ErrMissing, what, env)
}
