package redlock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/crowd"
	"github.com/seed80cd6120/locker/internal/underway"
)

// settings are what the options of this package change.
type settings struct {
	prefix   string
	bound    time.Duration
	unfenced bool
	err      error
}

// WithPrefix sets what all keys and channels begin with, "redlock" without it. All
// programs that are to exclude each other need the same.
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if prefix == "" || len(prefix) > 64 {
			s.refuse("prefix of %d bytes, want 1 to 64", len(prefix))
		}
		for i := range len(prefix) {
			if prefix[i] == '{' || prefix[i] == '}' {
				s.refuse("prefix %q holds a brace, which would change where Redis looks for the hash tag", prefix)
			}
		}
		s.prefix = prefix
		return s.err
	})
}

// WithNodeTimeout sets how long a node may take to answer before the others decide
// without it. Without it, it is a fifth of the TTL, but at least 200 ms and at most a
// second. Only what cannot be decided without the node takes that long, and only until
// the node is known not to answer.
func WithNodeTimeout(d time.Duration) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if d < time.Millisecond || d > time.Minute {
			s.refuse("node timeout %v is not between 1ms and 1m", d)
		}
		s.bound = d
		return s.err
	})
}

// WithoutFencing makes a Locker whose locks have no token: Token is 0. It saves
// the nodes a little work. Holders with and without tokens exclude each other.
func WithoutFencing() locker.Option {
	return locker.BackendOption(func(s *settings) error { s.unfenced = true; return nil })
}

func (s *settings) refuse(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: redlock: %s", locker.ErrInvalidOption, fmt.Sprintf(format, args...))
	}
}

// New makes a Locker over independent Redis masters, one client for each. An odd
// number of three or more is what the algorithm is for. An even number works, but
// survives no more dead nodes than the odd number below it; of two nodes both are
// needed, so that it is more fragile than one; one is a single Redis, with its
// weakness. Such numbers are logged as a warning.
//
// All programs have to be given the same nodes. New does not talk to any of them.
// The clients stay the caller's: Close does not close them.
func New(clients []goredis.UniversalClient, opts ...locker.Option) (locker.Locker, error) {
	var s settings
	cfg, err := locker.NewConfig("redlock", &s, opts...)
	if err != nil {
		return nil, err
	}
	b, err := newBackend(clients, cfg, s)
	if err != nil {
		return nil, err
	}
	return locker.New(b, cfg)
}

func newBackend(clients []goredis.UniversalClient, cfg *locker.Config, s settings) (*backend, error) {
	if s.prefix == "" {
		s.prefix = "redlock"
	}
	if s.bound == 0 {
		s.bound = min(max(cfg.TTL/5, 200*time.Millisecond), time.Second)
	}
	if s.err == nil {
		s.err = checkClients(clients)
	}
	if s.err != nil {
		return nil, s.err
	}

	n := len(clients)
	if n < 3 || n%2 == 0 {
		cfg.Logger.Warn("redlock: an odd number of three or more nodes is advised", "nodes", n, "dead nodes survived", (n-1)/2)
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	b := &backend{
		clock:   cfg.Clock,
		log:     cfg.Logger,
		prefix:  s.prefix,
		bound:   s.bound,
		fenced:  !s.unfenced,
		quorum:  n/2 + 1,
		channel: hex.EncodeToString(id[:]),
		claims:  make(map[string]*claim),

		seekFirst: seekFirst,
	}
	b.tokens.start = time.Now()
	b.ctx, b.stop = context.WithCancel(context.Background())
	for i, c := range clients {
		b.nodes = append(b.nodes, b.newNode(c, i))
	}
	b.later.nodes = b.nodes
	b.bell = newBell(b)
	return b, nil
}

func checkClients(clients []goredis.UniversalClient) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: redlock: %s", locker.ErrInvalidOption, fmt.Sprintf(format, args...))
	}
	if len(clients) == 0 || len(clients) > maxNodes {
		return bad("%d clients, want 1 to %d", len(clients), maxNodes)
	}
	seen := make(map[any]int)
	for i, c := range clients {
		if c == nil || reflect.ValueOf(c).Kind() == reflect.Pointer && reflect.ValueOf(c).IsNil() {
			return bad("client %d is nil", i)
		}
		switch c.(type) {
		case *goredis.ClusterClient, *goredis.Ring:
			return bad("client %d is for many servers, but a node has to be one", i)
		}
		keys := []any{c}
		if single, ok := c.(*goredis.Client); ok {
			if o := single.Options(); o.Addr != failover {
				keys = append(keys, o.Network+" "+o.Addr)
			}
		}
		for _, k := range keys {
			if reflect.TypeOf(k).Comparable() {
				if j, twice := seen[k]; twice {
					return bad("clients %d and %d are for the same server", j, i)
				}
				seen[k] = i
			}
		}
	}
	return nil
}

// failover is what go-redis gives as the address of a client that asks Sentinels.
const failover = "FailoverClient"

func nameOf(c goredis.UniversalClient, i int) string {
	if single, ok := c.(*goredis.Client); ok && single.Options().Addr != failover {
		return single.Options().Addr
	}
	return fmt.Sprintf("%d", i)
}

// backend is the driver.
type backend struct {
	nodes   []*node
	quorum  int
	clock   driver.Clock
	log     *slog.Logger
	prefix  string
	bound   time.Duration
	fenced  bool
	channel string // that of this backend: the last part of its name
	tokens  tokens
	bell    *bell
	later   alarm
	crowd   crowd.Crowd

	seekFirst time.Duration // changed by tests only

	ctx  context.Context // ends with the backend
	stop context.CancelFunc
	open underway.Group // requests without an answer

	mu     sync.Mutex
	claims map[string]*claim // by ID, until they are released or abandoned
}

// check is how often the core asks whether the locks are still there, so that one
// whose keys were deleted by hand is told of within a second.
const check = 750 * time.Millisecond

// Traits says what this backend is.
func (b *backend) Traits() driver.Traits {
	return driver.Traits{Backend: "redlock", Fenced: b.fenced, Prompt: true, Check: check}
}

// Close waits until what is under way has been answered, but not for a node that
// hangs: the client library gives that up in its own time.
func (b *backend) Close(ctx context.Context) error {
	for _, n := range b.nodes {
		n.finish()
	}
	b.bell.close()
	done := make(chan struct{})
	go func() {
		<-b.open.None()
		b.stop()
		for _, n := range b.nodes {
			n.end()
		}
		b.bell.wait()
		close(done)
	}()
	look := time.NewTicker(b.bound / 4)
	defer look.Stop()
	for begin := time.Now(); ; {
		select {
		case <-done:
			return nil
		case <-look.C:
			if time.Since(begin) < b.bound {
				continue
			}
			if busy, hanging := b.underWay(); busy == hanging {
				if busy != "" {
					b.log.Warn("redlock: closed although nodes have not answered", "nodes", hanging)
				}
				b.stop()
				return nil
			}
		case <-ctx.Done():
			busy, _ := b.underWay()
			b.stop()
			return fmt.Errorf("%w; these nodes have not answered: %s", ctx.Err(), busy)
		}
	}
}

// underWay names the nodes that have not answered yet, and those of them that
// hang.
func (b *backend) underWay() (busy, hanging string) {
	for _, n := range b.nodes {
		if n.busy() {
			busy += n.name + " "
		}
		if n.hung() {
			hanging += n.name + " "
		}
	}
	return busy, hanging
}

// join makes c known to the bell, and leave forgets it.
func (b *backend) join(c *claim) {
	b.mu.Lock()
	b.claims[c.ID] = c
	b.mu.Unlock()
}

func (b *backend) leave(c *claim) {
	b.mu.Lock()
	delete(b.claims, c.ID)
	b.mu.Unlock()
}

func (b *backend) claim(id string) *claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.claims[id]
}

// quorumError says what the nodes answered.
func (b *backend) quorumError(replies []reply) error {
	e := &QuorumError{Nodes: len(b.nodes)}
	for _, rep := range replies {
		switch {
		case rep.err != nil:
			e.Errs = append(e.Errs, rep.err)
		case rep.yes:
			e.Yes++
		default:
			e.No++
		}
	}
	return e
}

var errWithdrawn = errors.New("this claim has been withdrawn")
