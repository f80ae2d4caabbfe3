package servers

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// part is a server, or a group of them.
type part interface{ servers() []*Server }

func (s *Server) servers() []*Server { return []*Server{s} }

// serversOf returns the servers of all parts.
func serversOf[T part](parts []T) []*Server {
	var all []*Server
	for _, p := range parts {
		all = append(all, p.servers()...)
	}
	return all
}

// Each calls do with each of several servers, all at once, and returns what went wrong.
func Each[T any](all []T, do func(T) error) error {
	return together(len(all), func(i int) error { return do(all[i]) })
}

func closeAll(all []*Server) error { return Each(all, (*Server).Close) }

// orClose returns a group that has been started, or closes what there is of it if err is not nil.
func orClose[T interface{ Close() error }](started T, err error) (T, error) {
	if err != nil {
		var none T
		return none, errors.Join(err, started.Close())
	}
	return started, nil
}

func addrsOf(all []*Server) []string {
	var addrs []string
	for _, s := range all {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// allReady waits until every server serves.
func allReady(ctx context.Context, all []*Server) error {
	return Each(all, func(s *Server) error { return s.WaitReady(ctx) })
}

// startTogether starts new servers together, because none serves before the others are there.
func startTogether(ctx context.Context, all []*Server) error {
	err := Each(all, func(s *Server) error { return s.start(ctx) })
	if err == nil {
		err = allReady(ctx, all)
	}
	return err
}

// leading is a member of a group that elects a leader.
type leading interface {
	part
	PID() int
	Given() bool
	leads(ctx context.Context) (bool, error)
}

// leaderOf returns the member that leads now. It waits for one until ctx ends.
func leaderOf[T leading](ctx context.Context, members []T) (leader T, err error) {
	err = Poll(ctx, func(ctx context.Context) error {
		leads := make([]bool, len(members))
		err := together(len(members), func(i int) (err error) { // one that stands still keeps none from being asked
			if m := members[i]; m.Given() || m.PID() != 0 {
				leads[i], err = m.leads(ctx)
			}
			return err
		})
		i := slices.Index(leads, true)
		if i < 0 {
			return errors.Join(errors.New("no member leads"), err)
		}
		leader = members[i]
		return nil
	})
	return leader, err
}

// group is servers of one kind that elect a leader.
type group[T leading] struct{ Members []T }

func (g *group[T]) servers() []*Server { return serversOf(g.Members) }

// WaitReady waits until every member serves, which takes a quorum.
func (g *group[T]) WaitReady(ctx context.Context) error { return allReady(ctx, g.servers()) }

// Addrs returns the addresses of the members.
func (g *group[T]) Addrs() []string { return addrsOf(g.servers()) }

// Leader returns the member that leads now. It waits for one until ctx ends.
func (g *group[T]) Leader(ctx context.Context) (T, error) { return leaderOf(ctx, g.Members) }

// Close ends all members for good.
func (g *group[T]) Close() error { return closeAll(g.servers()) }

// SumRequests adds up what the given servers answer to [Server.Requests].
func SumRequests[T part](ctx context.Context, all []T) (int64, error) {
	var sum int64
	for _, s := range serversOf(all) {
		n, err := s.Requests(ctx)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

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
