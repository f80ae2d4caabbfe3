package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ZooKeeperEnsemble is a group of ZooKeeper servers that elect a leader.
type ZooKeeperEnsemble struct {
	Members []*ZooKeeper
}

// StartZooKeeperEnsemble starts n servers and returns when all serve.
func StartZooKeeperEnsemble(ctx context.Context, n int, opts ZooKeeperOptions) (*ZooKeeperEnsemble, error) {
	if addrs, ok := givenAddrs(EnvZooKeeper, n); ok && opts.plain() {
		e := &ZooKeeperEnsemble{}
		for _, addr := range addrs {
			e.Members = append(e.Members, givenZooKeeper(addr))
		}
		return e, e.WaitReady(ctx)
	}
	return retryPorts(func() (*ZooKeeperEnsemble, error) {
		e := &ZooKeeperEnsemble{}
		for range n {
			z, err := newZooKeeper(opts, e.lines)
			if err != nil {
				return nil, errors.Join(err, e.Close())
			}
			e.Members = append(e.Members, z)
		}
		err := together(n, func(i int) error { return e.Members[i].start(ctx, false) })
		if err == nil {
			err = e.WaitReady(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		return e, nil
	})
}

// lines returns the configuration that makes the members know each other, and which of
// them z is.
func (e *ZooKeeperEnsemble) lines(z *ZooKeeper) ([]string, int) {
	// Ticks may be short; a machine under load still must get a follower in.
	lines := []string{"initLimit=20", "syncLimit=6"}
	id := 0
	for i, m := range e.Members {
		lines = append(lines, fmt.Sprintf("server.%d=%s:%s:%s", i+1, host, m.ports[1], m.ports[2]))
		if m == z {
			id = i + 1
		}
	}
	return lines, id
}

// WaitReady waits until every member serves.
func (e *ZooKeeperEnsemble) WaitReady(ctx context.Context) error {
	return together(len(e.Members), func(i int) error { return e.Members[i].WaitReady(ctx) })
}

// Addrs returns the addresses of the members.
func (e *ZooKeeperEnsemble) Addrs() []string {
	var addrs []string
	for _, z := range e.Members {
		addrs = append(addrs, z.Addr())
	}
	return addrs
}

// Leader returns the member that leads now. It waits for one until ctx ends.
func (e *ZooKeeperEnsemble) Leader(ctx context.Context) (*ZooKeeper, error) {
	var leader *ZooKeeper
	err := poll(ctx, func(ctx context.Context) error {
		var errs []error
		for _, z := range e.Members {
			if !z.given && z.PID() == 0 {
				continue
			}
			fields, err := z.Status(ctx)
			errs = append(errs, err)
			if mode := fields["Mode"]; mode == "leader" || mode == "standalone" {
				leader = z
				return nil
			}
		}
		return errors.Join(append(errs, errors.New("no member leads"))...)
	})
	return leader, err
}

// Followers returns the members that are not the leader.
func (e *ZooKeeperEnsemble) Followers(ctx context.Context) ([]*ZooKeeper, error) {
	leader, err := e.Leader(ctx)
	if err != nil {
		return nil, err
	}
	var others []*ZooKeeper
	for _, z := range e.Members {
		if z != leader {
			others = append(others, z)
		}
	}
	return others, nil
}

// Close ends all members for good.
func (e *ZooKeeperEnsemble) Close() error { return closeZooKeeper(e.Members) }

// together calls do for 0 to n-1 at once and returns what went wrong.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
