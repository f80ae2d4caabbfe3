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
	type need struct {
		setup contender.Setup
		warm  contender.Contender
	}
	var needs []need
	seen := map[contender.Setup]bool{}
	for _, c := range cells {
		s := c.Contender.Setup
		if base := baseOf(s); base != s {
			r.derive(ctx, s)
			continue
		}
		if !seen[s] && r.sites[s] == nil && !r.broken[s] {
			seen[s] = true
			needs = append(needs, need{s, c.Contender})
		}
	}
	var wg sync.WaitGroup
	for _, n := range needs {
		r.tell("starting " + n.setup.String())
		wg.Go(func() { r.openSite(ctx, n.setup) })
	}
	wg.Wait()
	for _, n := range needs {
		if s := r.sites[n.setup]; s != nil && n.setup.Service != contender.Memory {
			r.tell("warming up " + n.setup.String())
			wg.Go(func() { warmUp(ctx, r.Depth, s, n.warm) })
		}
	}
	wg.Wait()
}

// baseOf is the setup whose servers another setup uses.
func baseOf(s contender.Setup) contender.Setup {
	if s.Variant == contender.BlackHole {
		s.Variant = contender.Usual
	}
	return s
}

func (r *runner) derive(ctx context.Context, s contender.Setup) {
	base := baseOf(s)
	if r.sites[s] != nil {
		return
	}
	if r.sites[base] == nil && !r.broken[base] {
		r.openSite(ctx, base)
	}
	if r.sites[base] == nil {
		return
	}
	d, err := r.sites[base].Derive(s.Variant)
	if err != nil {
		r.results.Fail(measure.Failure{Reason: fmt.Sprintf("%s: %v", s, err)})
		return
	}
	r.sites[s] = d
	r.version.Store(s.String(), d.Version)
}

func (r *runner) openSite(ctx context.Context, s contender.Setup) {
	opened, err := site.Start(ctx, s, r.Given)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.broken[s] = true
		r.results.Fail(measure.Failure{Reason: fmt.Sprintf("%s could not be started: %v", s, err)})
		return
	}
	r.sites[s] = opened
	r.version.Store(s.String(), opened.Version)
}

func (r *runner) closeSites() {
	for _, s := range r.sites {
		if err := s.Close(); err != nil {
			r.results.Fail(measure.Failure{Reason: fmt.Sprintf("closing %s: %v", s.Setup, err)})
		}
	}
}

// warmUp gives a server its first work. ZooKeeper's JVM compiles while it does, and
// takes some thousands of acquisitions until it is no longer faster each second.
func warmUp(ctx context.Context, depth Depth, s *site.Site, c contender.Contender) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d, at := 100*time.Millisecond, 1
	if s.Setup.Service == contender.ZooKeeper {
		d, at = 4*time.Second, 8
	}
	d = depth.window(d)
	client, err := c.Open(ctx, contender.Config{Addrs: s.Addrs, TTL: DefaultTTL})
	if err != nil {
		return // the first cell will say why
	}
	defer client.Close()
	var wg sync.WaitGroup
	start := time.Now()
	for i := range at {
		name := fmt.Sprint("warm-up-", i)
		wg.Go(func() {
			for time.Since(start) < d {
				held, err := client.Acquire(ctx, name)
				if err != nil || held.Release(ctx) != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}
