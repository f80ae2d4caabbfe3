// Package contender is what all locks in the comparison have in common: ours, those
// of other libraries, the naive recipes, and the bare calls without which a lock
// cannot be.
//
// It is thin on purpose. A contender is opened on the addresses of some servers and
// then takes names and gives them back; everything else (how it waits, whether it
// renews, what its tokens are worth) is its own and is what the experiments show.
package contender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Role says why something is in the comparison.
type Role string

const (
	Ours    Role = "ours"    // a backend of this project
	Rival   Role = "rival"   // another library
	Floor   Role = "floor"   // the bare calls, which cannot wait
	Exhibit Role = "exhibit" // a recipe that articles warn of
)

// Service is a kind of server.
type Service string

const (
	Memory    Service = "memory" // none: locks of one process
	File      Service = "file"   // none: locks of the processes of one machine, in a directory
	Redis     Service = "redis"
	ZooKeeper Service = "zookeeper"
	Etcd      Service = "etcd"
	Postgres  Service = "postgres"
	MariaDB   Service = "mariadb"
)

// Services are all kinds of servers, in the order of the report.
var Services = []Service{Memory, File, Redis, ZooKeeper, Etcd, Postgres, MariaDB}

// Setup is what servers a contender runs on. Contenders with the same Setup share
// the servers of a run.
type Setup struct {
	Service Service
	Nodes   int
	Variant Variant
}

// Variant is how the servers of a Setup differ from what is usual.
type Variant string

const (
	Usual     Variant = ""
	BlackHole Variant = "blackhole" // the first node accepts connections and never answers
	NoSync    Variant = "nosync"    // ZooKeeper with forceSync=no
)

// String is short enough for a column: "redis-5-blackhole".
func (s Setup) String() string {
	if s.Local() {
		return string(s.Service)
	}
	name := fmt.Sprintf("%s-%d", s.Service, s.Nodes)
	if s.Variant != Usual {
		name += "-" + string(s.Variant)
	}
	return name
}

// Local reports whether there are no servers.
func (s Setup) Local() bool { return s.Service == Memory || s.Service == File }

// CountsMessages reports whether the servers can be asked how many messages they have sent.
func (s Setup) CountsMessages() bool {
	return slices.Contains([]Service{Redis, ZooKeeper, Etcd}, s.Service)
}

// InProcess and Directory need no server; the others are of one server, as most contenders are.
var (
	InProcess  = Setup{Service: Memory}
	Directory  = Setup{Service: File}
	Redis1     = Setup{Service: Redis, Nodes: 1}
	ZooKeeper1 = Setup{Service: ZooKeeper, Nodes: 1}
	Etcd1      = Setup{Service: Etcd, Nodes: 1}
	Postgres1  = Setup{Service: Postgres, Nodes: 1}
	MariaDB1   = Setup{Service: MariaDB, Nodes: 1}
)

// Of returns the same with so many servers.
func (s Setup) Of(nodes int) Setup { return Setup{s.Service, nodes, s.Variant} }

// But returns the same, with servers that differ.
func (s Setup) But(v Variant) Setup { return Setup{s.Service, s.Nodes, v} }

// Contender is one line of the comparison.
type Contender struct {
	// Name is unique: "redis", "redsync-5", "zk.Lock-3". Empty, it is the Family.
	Name string
	// Family is the Name less the setup: "redsync". It is what -backends and
	// -rivals choose by.
	Family string
	Role   Role
	Setup  Setup
	// Note says how it was configured, where a user would have had a choice.
	Note string
	// Aside: it differs from another contender in one respect, and is measured where
	// that matters.
	Aside bool
	// Traits is what may be asked of it.
	Traits Traits
	// Open makes one client with connections of its own.
	Open func(ctx context.Context, cfg Config) (Client, error)
	// OpenCrowd is what a library of another language has instead of Open: n clients in a process of their own.
	OpenCrowd func(ctx context.Context, cfg Config, n int) (Crowd, error)
}

// On returns c on each of the setups, with the number of servers, and how they differ, behind its name.
func (c Contender) On(setups ...Setup) (all []Contender) {
	for _, s := range setups {
		c.Name, c.Setup = c.Family+s.String()[len(s.Service):], s
		all = append(all, c)
	}
	return all
}

// List returns all contenders of a role.
func List(role Role, lists ...[]Contender) []Contender {
	all := slices.Concat(lists...)
	for i := range all {
		all[i].Role = role
		if all[i].Name == "" {
			all[i].Name = all[i].Family
		}
	}
	return all
}

// Crowd is a number of clients that measure by themselves, so that what lies between their process and this one is not measured.
type Crowd interface {
	// Compete has all clients take name in turn, each as often as it can: for warm at least, and then for window, which counts.
	Compete(ctx context.Context, name string, warm, window time.Duration) (*CrowdTally, error)
	Close() error
}

// CrowdTally is what came of it; durations are in nanoseconds.
type CrowdTally struct {
	Took     time.Duration   `json:"took"`     // the window
	Counts   []int64         `json:"counts"`   // acquisitions of each client within the window
	Acquire  []time.Duration `json:"acquire"`  // from asking to holding
	HandOver []time.Duration `json:"handOver"` // from the release to the next holder having it
	Pair     []time.Duration `json:"pair"`     // from asking until the release has returned
	Overlaps int64           `json:"overlaps"` // how often two held it at once
	Stuck    int64           `json:"stuck"`    // clients that waited ten seconds for a free lock at the end
}

// Traits say which experiments make sense for a contender.
type Traits struct {
	// Waits: Acquire blocks until the name is free.
	Waits bool
	// Renews: a holding outlives its TTL without the caller doing anything.
	Renews bool
	// Fenced: a holding has a token that grows.
	Fenced bool
	// Shared, Permits: it has AcquireKind, and locks of this kind.
	Shared, Permits bool
	// HandOver: it heeds Config.HandOver.
	HandOver bool
	// MinTTL is the shortest TTL that the server or the library accepts.
	MinTTL time.Duration
}

// Config is what a client is opened with.
type Config struct {
	Addrs []string
	TTL   time.Duration
	// HandOver is for how long goroutines of the client may pass a name on among
	// themselves.
	HandOver time.Duration
}

// Taking takes a name.
type Taking func(ctx context.Context, name string) (Held, error)

// AskEvery returns how to wait for a name with one that does not wait: it is asked again after a pause for as long as it
// says ErrTaken.
func AskEvery(pause time.Duration, try Taking) Taking {
	return func(ctx context.Context, name string) (Held, error) {
		for {
			held, err := try(ctx, name)
			if !errors.Is(err, ErrTaken) {
				return held, err
			}
			if err := Pause(ctx, pause); err != nil {
				return nil, err
			}
		}
	}
}

// Client is one user of the lock service. Its functions may be called from several
// goroutines.
type Client struct {
	// Acquire waits until name is free and takes it.
	Acquire Taking
	// AcquireKind, if there are several kinds of locks, does so as k says.
	AcquireKind func(ctx context.Context, name string, k Kind) (Held, error)
	// Try, if a library can ask without waiting, does so. The error is ErrTaken if the name is held.
	Try Taking
	// Close ends the client in the way its library means it to be ended. Names
	// still held are not released first.
	Close func() error
}

// ErrTaken is returned by Try.
var ErrTaken = errors.New("taken")

// Closing returns a Close of what cannot fail to close.
func Closing(end func()) func() error {
	return func() error {
		end()
		return nil
	}
}

// Kind is what a name is taken as. The zero value is exclusive and renewed.
type Kind struct {
	Shared bool
	// Permits, if not zero, is how many of Of are taken.
	Permits, Of int
	// Lease, if not zero, is for how long; the holding is not renewed.
	Lease time.Duration
}

// As returns a client whose Acquire takes names as k says. It has AcquireKind.
func (c Client) As(k Kind) Client {
	take := c.AcquireKind
	c.Acquire = func(ctx context.Context, name string) (Held, error) { return take(ctx, name, k) }
	return c
}

// Held is one holding. *locker.Lock is one.
type Held interface {
	// Token fences; 0 if there is none.
	Token() int64
	// Release gives the name back.
	Release(ctx context.Context) error
}

// Plain is a Held that can only be released.
type Plain func(ctx context.Context) error

// Token returns 0.
func (Plain) Token() int64 { return 0 }

// Release gives the name back.
func (p Plain) Release(ctx context.Context) error { return p(ctx) }

// Dated is a Held that says until when it holds.
type Dated interface {
	Deadline() time.Time
}

// Watched is a Held that tells of its loss.
type Watched interface {
	// Context ends when the holding does.
	Context() context.Context
}

// Extender is a Held that lives on only if its caller says so again and again.
type Extender interface {
	Extend(ctx context.Context, ttl time.Duration) error
}

// Pause waits for d; it returns the error of ctx if that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
