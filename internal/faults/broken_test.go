package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/mustfail"
	"github.com/seed80cd6120/locker/internal/servers"
)

// What follows are locks with one defect each, to see that a campaign finds it.
func init() {
	// A holder whose clock is slow is told too late.
	Register("broken-late", func(ctx context.Context, a Access) (conformance.Client, error) {
		a.Kind, a.clock = "redis", &slowClock{locker.SystemClock(), 10}
		return Open(ctx, a)
	})
	Register("broken-later", func(ctx context.Context, a Access) (conformance.Client, error) {
		a.Kind, a.clock = "redis", &slowClock{locker.SystemClock(), 40}
		return Open(ctx, a)
	})
	// Every lock is lost at once.
	Register("broken-lost", func(ctx context.Context, a Access) (conformance.Client, error) {
		a.Kind = "redis"
		c, err := Open(ctx, a)
		return losing{c, a}, err
	})
	// Who wants a name alone shares it.
	Register("broken-writer", func(ctx context.Context, a Access) (conformance.Client, error) {
		a.Kind = "redis"
		c, err := Open(ctx, a)
		return sharing{c}, err
	})
	// Locks are given to those who have not asked the server: one in five, also of the few that a busy machine comes to, or all.
	for kind, one := range map[string]int{"broken-double": 5, "broken-open": 1} {
		Register(kind, func(ctx context.Context, a Access) (conformance.Client, error) {
			a.Kind = "redis"
			c, err := Open(ctx, a)
			return double{c, one}, err
		})
	}
	// Tokens begin anew in every process.
	Register("broken-token", func(ctx context.Context, a Access) (conformance.Client, error) {
		a.Kind = "redis"
		c, err := Open(ctx, a)
		return &counting{Client: c}, err
	})
}

func init() {
	// What is left behind: an open file, a goroutine, a connection, a key.
	leave := func(kind string, what func(a Access)) {
		Register(kind, func(ctx context.Context, a Access) (conformance.Client, error) {
			what(a)
			a.Kind = "redis"
			return Open(ctx, a)
		})
	}
	leave("broken-file", func(Access) { leaked, _ = os.Open(os.DevNull) })
	leave("broken-goroutine", func(Access) { go func() { <-stays }() })
	leave("broken-connection", func(a Access) { connected, _ = net.Dial("tcp", a.Through(a.Addrs[0])) })
	leave("broken-key", func(a Access) {
		c := RedisClient(a, a.Addrs[0])
		defer c.Close()
		c.Set(context.Background(), "exam-"+leftOf+"-2", "x", leftFor)
	})
}

// leftFor is how long what is left lives: for longer than one looks for it while the users are open, and gone before the look
// after that ends.
const leftFor = 25 * time.Second

var (
	leaked    *os.File
	connected net.Conn
	leftOf    string // the number of the row that is about to be run
	stays     = make(chan struct{})

	deletion func(ctx context.Context, name string) error // of whoever has the name
)

type slowClock struct {
	driver.Clock
	times driver.Instant
}

func (c *slowClock) Now() driver.Instant { return c.Clock.Now() / c.times }

type double struct {
	conformance.Client
	one int // of how many
}

func (d double) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (conformance.Holding, error) {
	if rand.IntN(d.one) == 0 {
		ctx, cancel := context.WithCancel(context.Background())
		return &invented{name: name, ctx: ctx, cancel: cancel, token: time.Now().UnixMicro()}, nil
	}
	return d.Client.Acquire(ctx, name, opts...)
}

type losing struct {
	conformance.Client
	a Access
}

func (l losing) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (conformance.Holding, error) {
	h, err := l.Client.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	c := RedisClient(l.a, l.a.Addrs[0])
	defer c.Close()
	if err := c.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	<-h.Context().Done()
	return h, nil
}

type sharing struct{ conformance.Client }

func (s sharing) Acquire(ctx context.Context, name string, _ ...locker.AcquireOption) (conformance.Holding, error) {
	return s.Client.Acquire(ctx, name, locker.Shared())
}

type invented struct {
	name   string
	token  int64
	ctx    context.Context
	cancel context.CancelFunc
}

func (h *invented) Name() string                  { return h.name }
func (h *invented) Token() int64                  { return h.token }
func (h *invented) Context() context.Context      { return h.ctx }
func (h *invented) Deadline() time.Time           { return time.Now().Add(time.Second) }
func (h *invented) Release(context.Context) error { h.cancel(); return nil }

type counting struct {
	conformance.Client
	mu sync.Mutex
	n  int64
}

func (c *counting) Acquire(ctx context.Context, name string, opts ...locker.AcquireOption) (conformance.Holding, error) {
	h, err := c.Client.Acquire(ctx, name, opts...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return numbered{h, c.n}, nil
}

type numbered struct {
	conformance.Holding
	n int64
}

func (n numbered) Token() int64 { return n.n }

// accused runs something on a broken lock and returns what it was found to do.
func accused(t *testing.T, l lane, kind string, run func(t testing.TB, s *Servers)) string {
	t.Parallel()
	defer l.enter()()
	b := Redis1
	b.Name = kind
	s := StartOn(t, b)
	s.Access.Kind, s.Pictures = kind, t.TempDir()
	found, _ := mustfail.Run(t, func(t testing.TB) { run(t, s) })
	t.Logf("found: %.500s", found)
	kept, err := filepath.Glob(filepath.Join(s.Pictures, "history-*", "*.jsonl"))
	if impossible := regexp.MustCompile("history: |resource: |porcupine refuses").MatchString(found); (len(kept) > 0) != impossible || err != nil {
		t.Errorf("kept of the history: %q, want some if no lock can have it (%v)", kept, err)
	}
	return found
}

// A campaign finds locks that do not exclude, or give tokens twice.
func TestCampaignsFindBrokenLocks(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	for kind, want := range map[string]*regexp.Regexp{
		"broken-double": regexp.MustCompile("both held for|has the greater token"), // only ten lines are reported
		"broken-token":  regexp.MustCompile("have the same token"),
	} {
		t.Run(kind, func(t *testing.T) {
			found := accused(t, working, kind, func(t testing.TB, s *Servers) {
				Campaign{Seed: 5, Processes: 4, Goroutines: 2, Names: 2, Length: 3 * time.Second}.Run(t, s)
			})
			drawn := strings.Contains(found, "porcupine refuses") || strings.Contains(found, unfinished)
			if !want.MatchString(found) || !drawn {
				t.Errorf("want %q, and a picture of a row that came to its end", want)
			}
		})
	}
}

// A campaign in which too little was done says nothing, and fails.
func TestCampaignThatDidTooLittle(t *testing.T) {
	servers.Need(t)
	found := accused(t, working, "redis", func(t testing.TB, s *Servers) {
		Campaign{Seed: 5, Processes: 2, Goroutines: 1, Names: 1, Length: time.Second, Want: 1_000_000}.Run(t, s)
	})
	if !strings.Contains(found, "this run says little") {
		t.Error("nothing was found")
	}
}

// A row finds a lock that tells its holder too late, or leaves something behind.
func TestRowsFindBrokenLocks(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	use := func(x *Exam) {
		p, _ := x.Process("A")
		r := x.Taken(p, x.Lock(), 10*time.Second)
		x.Must(r.Release(5 * time.Second))
		a, _ := x.Player("B")
		x.Warm(a)
	}
	evictSuccessor := func(ctx context.Context, _ locker.Locker, p locker.Position) error {
		return fmt.Errorf("%w: %v", locker.ErrNotFound, deletion(ctx, p.Name))
	}
	for _, c := range []struct {
		kind string
		row  string
		want string // regular expression
		run  func(x *Exam)
	}{
		{"broken-late", "cut-off", "the holder was not told|both held for|instead of waiting it got the lock", func(x *Exam) { cutOff(x, (*Network).Freeze, false) }},
		{"broken-lost", "cut-off", "lost the lock before anybody came to wait, again", func(x *Exam) { cutOff(x, (*Network).Freeze, false) }},
		{"broken-file", "use", "after closing there are", use},
		{"broken-goroutine", "use", "goroutines are left", use},
		{"broken-connection", "use", "connections are open", func(x *Exam) { // a process would say itself what it leaves
			a, _ := x.Player("A")
			x.Warm(a)
		}},
		{"broken-key", "use", "before the users were closed there was left on the servers", func(x *Exam) {
			x.Access.TTL = believing
			x.patience = leftFor + 5*time.Second
			leftOf = x.label
			use(x)
		}},
		{"broken-writer", "reader-killed", "both held for|instead of waiting it got the lock", readerKilled},
		{"broken-late", "hand-over", "both held for|instead of waiting it got the lock|gave the lock back", handOverLost},
		// Who is told too late does not campaign again in time either.
		{"broken-later", "leader-deposed", "the holder was not told|both held for|Inspect shows|not within 20s: the other campaigns", func(x *Exam) { leaderDeposed(x, locker.Evict) }},
		{"redis", "evicted-too-late", "release: ", func(x *Exam) {
			deletion = x.Destroy
			evictedTooLate(x, evictSuccessor)
		}},
		{"redis", "one-of-several-lost", "the holder was not told", func(x *Exam) {
			x.Destroy = func(context.Context, string) error { return nil }
			oneOfSeveralLost(x)
		}},
	} {
		t.Run(c.kind+"/"+c.row, func(t *testing.T) {
			found := accused(t, waiting, c.kind, func(t testing.TB, s *Servers) {
				Examine(t, s, func(x *Exam) {
					x.patience = time.Second // it does not go
					c.run(x)
				})
			})
			if !regexp.MustCompile(c.want).MatchString(found) {
				t.Errorf("want %q", c.want)
			}
		})
	}
}

// A leader that loses the lock just before it is evicted is no failure.
func TestLeaderLostBeforeItIsDeposed(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	defer waiting.enter()()
	Examine(t, StartOn(t, Redis1), func(x *Exam) {
		leaderDeposed(x, func(ctx context.Context, l locker.Locker, p locker.Position) error {
			if err := locker.Evict(ctx, l, p); err != nil { // unlike Destroy, never the next holder
				return err
			}
			return locker.Evict(ctx, l, p)
		})
	})
}

// Two who hold at once are found also if the row begins again.
func TestTwoHoldInRowThatBeginsAgain(t *testing.T) {
	servers.Need(t)
	found := accused(t, waiting, "broken-open", func(t testing.TB, s *Servers) {
		Examine(t, s, func(x *Exam) {
			name, a, b := x.pair()
			first, second := x.Acquired(a, name, 10*time.Second), x.Acquired(b, name, 10*time.Second)
			x.Until("it is recorded that the first holds, too", 20*time.Second, func() bool { return first.Alive() > second.grant+int64(note) })
			x.again("the machine is said to be late")
		})
	})
	if !strings.Contains(found, "both held for") {
		t.Error("nothing was found")
	}
}

// Users who were ended because the row begins again are not taken for holders until its end.
func TestHoldersOfRowThatBeginsAgain(t *testing.T) {
	servers.Need(t)
	t.Parallel()
	defer waiting.enter()()
	begun := 0
	Examine(t, StartOn(t, Redis1), func(x *Exam) {
		if begun++; begun > 1 {
			return
		}
		name := x.Lock()
		a, _ := x.Process("A")
		b, _ := x.Player("B")
		x.Taken(a, name, 10*time.Second)
		wait := x.Waits(b, name, 30*time.Second)
		x.Did("stop A", false, "", a.Stop)
		x.Get(wait)
		x.again("the machine is said to be late")
	})
	if begun != 2 {
		t.Errorf("begun %d times, want 2", begun)
	}
}
