package locker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/memory"
)

// strict is a driver that holds the core to what package driver says of it: in which
// order it calls, and what never at the same time.
type strict struct {
	everything
	t      *testing.T
	traits func(*driver.Traits)

	mu     sync.Mutex
	lives  map[string]*life // by ID
	calls  int              // under way
	closed bool
}

type everything interface {
	driver.Driver
	driver.Inspector
	driver.Evictor
	driver.Weigher
	driver.Lingerer
}

// life is what has become of one claim.
type life struct {
	asked   bool // Acquire has been called
	asking  bool // and is under way
	ending  bool // Release, Linger, Lighten or Abandon is
	granted bool
	left    bool // it has been abandoned, perhaps in vain
	over    bool // there is no more to come
}

func (s *strict) Traits() driver.Traits {
	t := s.everything.Traits()
	s.traits(&t)
	return t
}

// step notes the beginning of a call, or its end.
func (s *strict) step(c *driver.Claim, calls int, note func(l *life) (wrong bool), what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls += calls
	l := s.lives[c.ID]
	if l == nil {
		l = &life{}
		s.lives[c.ID] = l
	}
	if before := *l; note(l) || s.closed {
		s.t.Errorf("%s of %q: %+v, driver closed: %v", what, c.Name, before, s.closed)
	}
}

var claimID = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (s *strict) Acquire(ctx context.Context, c *driver.Claim) (driver.Grant, error) {
	s.step(c, 1, func(l *life) bool {
		again := l.asked
		l.asked, l.asking = true, true
		return again || !claimID.MatchString(c.ID) || c.Owner != "somebody" || c.TTL != time.Minute && !c.Lease || c.Lost == nil
	}, "Acquire")
	g, err := s.everything.Acquire(ctx, c)
	s.step(c, -1, func(l *life) bool {
		l.asking, l.granted, l.over = false, err == nil, errors.Is(err, driver.ErrTaken)
		return false
	}, "end of Acquire")
	return g, err
}

func (s *strict) Renew(ctx context.Context, claims []*driver.Claim, report func(*driver.Claim, driver.Instant, error)) {
	for _, c := range claims {
		s.step(c, 1, func(l *life) bool { return !l.granted || c.Lease && s.Traits().Check == 0 }, "Renew")
	}
	s.everything.Renew(ctx, claims, report)
	for _, c := range claims {
		s.step(c, -1, func(*life) bool { return false }, "end of Renew")
	}
}

func (s *strict) Release(ctx context.Context, c *driver.Claim) error {
	return s.end(c, "Release", func() error { return s.everything.Release(ctx, c) })
}

func (s *strict) Linger(ctx context.Context, c *driver.Claim, d time.Duration) error {
	return s.end(c, "Linger", func() error { return s.everything.Linger(ctx, c, d) })
}

func (s *strict) end(c *driver.Claim, what string, call func() error) error {
	s.step(c, 1, func(l *life) bool {
		wrong := !l.granted || l.ending || l.left || l.over
		l.ending = true
		return wrong
	}, what)
	err := call()
	s.step(c, -1, func(l *life) bool {
		l.ending, l.over = false, err == nil || errors.Is(err, driver.ErrGone)
		return false
	}, "end of "+what)
	return err
}

func (s *strict) Lighten(ctx context.Context, c *driver.Claim, weight int32) error {
	s.step(c, 1, func(l *life) bool {
		wrong := !l.granted || l.ending || l.left || l.over
		l.ending = true
		return wrong
	}, "Lighten")
	err := s.everything.Lighten(ctx, c, weight)
	s.step(c, -1, func(l *life) bool { l.ending = false; return false }, "end of Lighten")
	return err
}

func (s *strict) Abandon(ctx context.Context, c *driver.Claim) error {
	s.step(c, 1, func(l *life) bool {
		wrong := !l.asked || l.asking || l.ending || l.over
		l.ending, l.left = true, true
		return wrong
	}, "Abandon")
	err := s.everything.Abandon(ctx, c)
	s.step(c, -1, func(l *life) bool {
		l.ending, l.over = false, err == nil
		return false
	}, "end of Abandon")
	return err
}

func (s *strict) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.calls != 0 {
		s.t.Errorf("Close with %d calls under way, closed before: %v", s.calls, s.closed)
	}
	s.closed = true
	for id, l := range s.lives {
		if !l.over {
			s.t.Errorf("Close before the end of %s: %+v", id, *l)
		}
	}
	return s.everything.Close(ctx)
}

// The core keeps to the life of a claim as package driver tells it, whatever callers
// and servers do: calls that are given up, locks that are lost, destroyed and released by
// several, a store that is away now and then.
func TestContractWithDriver(t *testing.T) {
	for name, traits := range map[string]func(*driver.Traits){
		"prompt":  func(*driver.Traits) {},
		"aside":   func(t *driver.Traits) { t.Prompt = false },
		"checked": func(t *driver.Traits) { t.Prompt, t.Check = false, time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := locker.NewConfig[struct{}]("strict", nil, locker.WithTTL(time.Minute), locker.WithOwner("somebody"), locker.WithClock(locker.TimeClock{}), locker.WithHandOver(rand.N(2*time.Millisecond)))
			if err != nil {
				t.Fatal(err)
			}
			store := memory.NewStore()
			d := &strict{everything: store.Driver(cfg.Clock).(everything), t: t, traits: traits, lives: make(map[string]*life)}
			l, err := locker.New(d, cfg)
			if err != nil {
				t.Fatal(err)
			}
			var users, trouble sync.WaitGroup
			stop := make(chan struct{})
			trouble.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(rand.N(5 * time.Millisecond)):
					}
					store.Destroy(oneOf(3))
					if rand.IntN(4) == 0 {
						store.Fail(nil)
						time.Sleep(rand.N(2 * time.Millisecond))
						store.Heal()
					}
				}
			})
			for range 8 {
				users.Go(func() {
					for range 100 {
						use(l)
					}
				})
			}
			users.Wait()
			close(stop)
			trouble.Wait()
			if err := l.Close(context.Background()); err != nil {
				t.Error(err)
			}
			n := store.Len()
			for end := time.Now().Add(time.Second); n != 0 && time.Now().Before(end); n = store.Len() {
				time.Sleep(time.Millisecond) // what was taken with AtLeast stays for a moment
			}
			if n != 0 || len(d.lives) < 100 {
				t.Errorf("%d names left of %d claims", n, len(d.lives))
			}
		})
	}
}

// oneOf is one of n names.
func oneOf(n int) string { return fmt.Sprint("name ", rand.IntN(n)) }

// use takes a lock, or not, and gives it back in one of many ways, or not.
func use(l locker.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(10*time.Millisecond))
	defer cancel()
	acquire, name := l.Acquire, oneOf(3)
	if rand.IntN(3) == 0 {
		acquire = l.TryAcquire
	}
	var opts []locker.AcquireOption
	forgotten := rand.IntN(20) == 0
	if forgotten {
		name = oneOf(1 << 30)
		opts = append(opts, locker.WithLease(locker.MinTTL))
	}
	switch rand.IntN(6) {
	case 0, 1:
		opts = append(opts, locker.Shared())
	case 2:
		opts = append(opts, locker.Permits(1+rand.IntN(2), 3))
	case 3:
		opts = append(opts, locker.AtLeast(rand.N(3*time.Millisecond)+1))
	}
	lock, err := acquire(ctx, name, opts...)
	if err != nil || forgotten {
		return
	}
	if rand.IntN(3) == 0 {
		go func() { _ = lock.Downgrade(ctx) }()
	}
	if rand.IntN(2) == 0 {
		cancel()
	}
	var wg sync.WaitGroup
	for range 1 + rand.IntN(2) {
		wg.Go(func() { _ = lock.Release(ctx) })
	}
	wg.Wait()
}
