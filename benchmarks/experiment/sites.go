package experiment

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

// openSites starts what servers the cells need and are not there yet, at once.
func (r *runner) openSites(ctx context.Context, cells []*Cell) {
	first := map[contender.Setup]contender.Contender{} // who is to use them
	for _, c := range cells {
		setup := c.Contender.Setup
		_, there := r.sites[setup]
		if _, starts := first[setup]; !there && !starts {
			first[setup] = c.Contender
		}
	}
	var wg sync.WaitGroup
	for setup, c := range first {
		r.tell("starting " + setup.String())
		wg.Go(func() { r.openSite(ctx, setup, c) })
	}
	wg.Wait()
}

// openSite starts servers and gives them their first work.
func (r *runner) openSite(ctx context.Context, setup contender.Setup, c contender.Contender) {
	s, err := site.Start(ctx, setup, r.Given)
	r.mu.Lock()
	r.sites[setup] = s
	if err == nil {
		r.versions[setup.String()] = s.Version
	}
	r.mu.Unlock()
	if err != nil {
		r.results.Fail(measure.Failure{Reason: fmt.Sprintf("%s could not be started: %v", setup, err)})
	} else if !setup.Local() && setup.Variant != contender.BlackHole && r.Depth != Smoke && c.Open != nil {
		warmUp(ctx, s, c)
	}
}

func (r *runner) closeSites() {
	for setup, s := range r.sites {
		if s == nil {
			continue
		}
		if err := s.Close(); err != nil {
			r.results.Fail(measure.Failure{Reason: fmt.Sprintf("closing %s: %v", setup, err)})
		}
	}
}

// warmUp gives a server its first work. ZooKeeper's JVM compiles while it does, and
// takes some thousands of acquisitions until it is no longer faster each second.
func warmUp(ctx context.Context, s *site.Site, c contender.Contender) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d, at := 100*time.Millisecond, 1
	if s.Setup.Service == contender.ZooKeeper {
		d, at = 4*time.Second, 8
	}
	client, err := c.Open(ctx, contender.Config{Addrs: s.Addrs, TTL: DefaultTTL})
	if err != nil {
		return // the first cell will say why
	}
	defer client.Close()
	start := time.Now()
	_ = spread(at, at, func(i int) error {
		for time.Since(start) < d {
			if err := use(ctx, client, fmt.Sprint("warm-up-", i)); err != nil {
				return err
			}
		}
		return nil
	})
}
