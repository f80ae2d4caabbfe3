package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ZooKeeperEnsemble is a group of ZooKeeper servers that elect a leader.
type ZooKeeperEnsemble struct{ group[*ZooKeeper] }

// StartZooKeeperEnsemble starts n servers and returns when all serve. One is no ensemble,
// but a server by itself.
func StartZooKeeperEnsemble(ctx context.Context, n int, opts ZooKeeperOptions) (*ZooKeeperEnsemble, error) {
	if addrs, ok := givenAddrs(EnvZooKeeper, n); ok && opts.plain() {
		e := &ZooKeeperEnsemble{}
		for _, addr := range addrs {
			z := &ZooKeeper{Server: givenServer("zookeeper", addr)}
			z.bind()
			e.Members = append(e.Members, z)
		}
		return e, e.WaitReady(ctx)
	}
	return retryPorts(func() (*ZooKeeperEnsemble, error) {
		e := &ZooKeeperEnsemble{}
		return orClose(e, e.start(ctx, n, opts))
	})
}

func (e *ZooKeeperEnsemble) start(ctx context.Context, n int, opts ZooKeeperOptions) error {
	for range n {
		z, err := newZooKeeper(opts, e)
		if err != nil {
			return err
		}
		e.Members = append(e.Members, z)
	}
	return startTogether(ctx, e.servers())
}

// introduce tells z which member it is, and returns the lines of its configuration that
// make the members know each other.
func (e *ZooKeeperEnsemble) introduce(z *ZooKeeper) (lines []string, err error) {
	if len(e.Members) == 1 {
		return nil, nil
	}
	// Ticks may be short; a machine under load still must get a follower in.
	lines = []string{"initLimit=20", "syncLimit=6"}
	for i, m := range e.Members {
		lines = append(lines, fmt.Sprintf("server.%d=%s:%s:%s", i+1, host, m.ports[1], m.ports[2]))
		if m == z {
			err = os.WriteFile(filepath.Join(z.data, "myid"), []byte(strconv.Itoa(i+1)), 0o600)
		}
	}
	return lines, err
}
