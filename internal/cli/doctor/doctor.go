//go:build unix

// Package doctor examines servers: can they keep the promises of package locker? It opens clients of its own, by
// the URL that locker.Open would be given.
package doctor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/cli"
	"github.com/seed80cd6120/locker/internal/cli/finding"
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

// nodeTimeout bounds what one of several servers is asked, so that the others are heard.
const nodeTimeout = 3 * time.Second

// examineEach examines several servers at once. It returns what was found, how many do not answer, and the error of the first
// of these.
func examineEach(
	ctx context.Context, what string, addresses []string,
	examine func(context.Context, finding.List) ([]finding.Finding, error),
) (all []finding.Finding, away int, first error) {
	found := make([][]finding.Finding, len(addresses))
	failed := make([]error, len(addresses))
	var wait sync.WaitGroup
	for i, address := range addresses {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
			defer cancel()
			found[i], failed[i] = examine(ctx, finding.List{Server: address})
		})
	}
	wait.Wait()
	for i, err := range failed {
		l := finding.List{Server: addresses[i], Findings: found[i]}
		if err != nil {
			away++
			if first == nil {
				first = err
			}
			l.Warn(fmt.Sprintf("no answer: %v", err), "one "+what+" fewer may fail", "start the "+what+" or mend the way to it")
		}
		all = append(all, l.Findings...)
	}
	return all, away, first
}

// fields returns what stands in lines of a name and a value.
func fields(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			all[name] = value
		}
	}
	return all
}
