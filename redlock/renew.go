package redlock

import (
	"context"
	"sync"

	"github.com/seed80cd6120/locker/driver"
)

// maxKeys is how many locks one script renews. A script keeps its server from
// everything else while it runs.
const maxKeys = 256

// Renew counts the time of all claims anew: a script for every 256 of them on
// every node. A claim is confirmed when a majority has found it, and gone when so
// many have not that there can be no majority.
func (b *backend) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	over := false
	defer func() {
		mu.Lock()
		over = true
		mu.Unlock()
	}()
	safely := func(c *driver.Claim, until driver.Instant, err error) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			report(c, until, err)
		}
	}
	for len(claims) > 0 {
		n := min(len(claims), maxKeys)
		r := b.newRenewal(claims[:n], safely)
		claims = claims[n:]
		wg.Go(func() { r.run(ctx) })
	}
	wg.Wait()
}

// renewal is a batch of claims that are renewed together.
type renewal struct {
	b      *backend
	claims []*driver.Claim
	args   []any
	start  driver.Instant
	report func(*driver.Claim, driver.Instant, error)
	done   chan struct{}

	mu      sync.Mutex
	open    int
	yes, no []uint8
	known   []bool
	errs    []error
}

func (b *backend) newRenewal(claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) *renewal {
	keys := make([]string, len(claims))
	argv := make([]string, 0, 2*len(claims))
	for i, dc := range claims {
		c := dc.State.(*claim)
		keys[i] = c.lock
		argv = append(argv, c.head, c.ttl)
	}
	return &renewal{
		b:      b,
		claims: claims,
		args:   renewScript.call(keys, argv...),
		start:  b.clock.Now(),
		report: report,
		done:   make(chan struct{}),
		open:   len(b.nodes),
		yes:    make([]uint8, len(claims)),
		no:     make([]uint8, len(claims)),
		known:  make([]bool, len(claims)),
	}
}

func (r *renewal) run(ctx context.Context) {
	reqs := make([]request, len(r.b.nodes))
	for i, n := range r.b.nodes {
		reqs[i].job, reqs[i].i = r, i
		n.submit(&reqs[i])
	}
	// No other bound than ctx: an answer is of use as long as the locks last.
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	for i := range reqs {
		reqs[i].cancel()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, c := range r.claims {
		if !r.known[k] {
			r.known[k] = true
			r.report(c, 0, &QuorumError{Nodes: len(r.b.nodes), Yes: int(r.yes[k]), No: int(r.no[k]), Errs: r.errs})
		}
	}
}

func (r *renewal) command(int) (*script, []any) { return renewScript, r.args }

func (r *renewal) answered(_ int, v any, err error, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if r.open--; r.open == 0 {
			close(r.done)
		}
	}()
	found, _ := v.(string)
	if err == nil && len(found) != len(r.claims) {
		err = strange(v)
	}
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	b := r.b
	for k, c := range r.claims {
		if found[k] == '1' {
			r.yes[k]++
		} else {
			r.no[k]++
		}
		switch {
		case r.known[k]:
		case int(r.yes[k]) >= b.quorum:
			r.known[k] = true
			r.report(c, r.start.Add(c.TTL-coarse), nil)
		case int(r.no[k]) > len(b.nodes)-b.quorum:
			r.known[k] = true
			r.report(c, 0, driver.ErrGone)
		}
	}
}
