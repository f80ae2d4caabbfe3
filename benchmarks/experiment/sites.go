package experiment

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/measure"
	"github.com/seed80cd6120/locker/benchmarks/site"
)

// openSites starts what servers the cells need and are not there yet, at once, and then what is made of others.
func (r *runner) openSites(ctx context.Context, cells []*Cell) {
	started, derived := map[contender.Setup]contender.Contender{}, []contender.Setup{}
	for _, c := range cells {
		setup := c.Contender.Setup
		if setup.Variant == contender.BlackHole && !slices.Contains(derived, setup) {
			derived = append(derived, setup)
			setup.Variant = contender.Usual
		}
		_, known := r.sites[setup]
		if _, needed := started[setup]; !known && !needed && setup.Variant != contender.BlackHole {
			started[setup] = c.Contender
		}
	}
	var wg sync.WaitGroup
	for setup, c := range started {
		r.tell("starting " + setup.String())
		wg.Go(func() { r.openSite(ctx, setup, c) })
	}
	wg.Wait()
	for _, setup := range derived {
		base := r.sites[setup.But(contender.Usual)]
		if _, known := r.sites[setup]; !known && base != nil {
			s, err := base.Derive(setup.Variant)
			r.noteSite(setup, s, err)
		}
	}
}

// openSite starts servers and gives them their first work.
func (r *runner) openSite(ctx context.Context, setup contender.Setup, c contender.Contender) {
	s, err := site.Start(ctx, setup, r.Given)
	r.noteSite(setup, s, err)
	if err == nil && !setup.Local() && r.Depth != Smoke && c.Open != nil {
		warmUp(ctx, s, c)
	}
}

func (r *runner) noteSite(setup contender.Setup, s *site.Site, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sites[setup] = s
	if err != nil {
		r.results.Fail(measure.Failure{Reason: fmt.Sprintf("%s could not be started: %v", setup, err)})
		return
	}
	r.versions[setup.String()] = s.Version
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
