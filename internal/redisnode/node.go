// Package redisnode is what the backends redis and redlock have in common: the requests about locks to one
// logical Redis, which is a single server, a master that Sentinels look after, or a Cluster. What is on
// the server is described in lua/lib.lua.
//
// A [Node] has every method of a driver but Traits; its Acquire asks once and does not wait. It sends the requests about a
// [Claim], returns soon after their context has ended whatever the client does, and tells waiting claims what the server says.
// It decides nothing.
package redisnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servertime"
	"github.com/seed80cd6120/locker/internal/underway"
)

// Options say how a node is used.
type Options struct {
	// Prefix is what all keys and channels begin with; see [CheckPrefix].
	Prefix string
	// Kind keeps apart those who use a prefix in different ways: letters, or nothing.
	Kind string
	// ByAge: those who wait for a name do so in the order of [Claim.Since], not of their arrival.
	ByAge bool
	// Aside: no request is made in place; see in_place.go.
	Aside bool
	// At returns what the node keeps of a claim. Without it that is [driver.Claim.State].
	At func(*driver.Claim) *Claim
	// Clock is that of the core.
	Clock driver.Clock
	// Logger is told what no caller can be told.
	Logger *slog.Logger
}

// Node is one logical Redis.
type Node struct {
	client  goredis.UniversalClient
	cluster cluster // the client again, if it is one of a Cluster
	opts    Options
	keys    keys
	id      string // of this node in its channels
	clock   driver.Clock
	time    *servertime.Guess
	scripts scripts

	mu     sync.Mutex
	subs   map[string]*subscription // by the server's address, in a Cluster
	waited map[string]*Claim        // those that have waited and have not ended, by ID

	quick    atomic.Bool    // the server was quick to answer last time
	hooked   func() bool    // whether client has hooks
	clients  sync.Map       // *inPlaceClient by client: this one, or those of a Cluster's servers
	eviction sync.Once      // of checkEviction
	working  underway.Group // what runs in the background
	life     context.Context
	die      context.CancelFunc
}

// cluster is what is used of a client of a Cluster. A client that embeds one is known by these methods.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*goredis.Client, error)
	ForEachMaster(ctx context.Context, f func(ctx context.Context, client *goredis.Client) error) error
	ReloadState(ctx context.Context)
}

// Open returns the node that client is connected to. It does no I/O.
func Open(client goredis.UniversalClient, o Options) (*Node, error) {
	if err := CheckPrefix(o.Prefix); err != nil {
		return nil, err
	}
	single, isSingle := client.(*goredis.Client)
	whole, isWhole := client.(*goredis.ClusterClient)
	if client == nil || isSingle && single == nil || isWhole && whole == nil {
		return nil, fmt.Errorf("%w: nil client", locker.ErrInvalidOption)
	}
	if _, ring := client.(interface{ SetAddrs(map[string]string) }); ring {
		return nil, fmt.Errorf("%w: a Ring moves locks when a server is away", locker.ErrInvalidOption)
	}
	if _, pipelined := client.(*goredis.AutoPipeliner); pipelined {
		return nil, fmt.Errorf("%w: an AutoPipeliner may answer before it has asked: give the client it is made of", locker.ErrInvalidOption)
	}
	if o.At == nil {
		o.At = func(c *driver.Claim) *Claim { return c.State.(*Claim) }
	}
	sharded, _ := client.(cluster)
	n := &Node{
		client: client, cluster: sharded, opts: o, keys: keys{o.Prefix, o.Kind}, id: rand.Text(),
		clock: o.Clock, time: servertime.New(o.Clock), scripts: newScripts(),
		subs: make(map[string]*subscription), waited: make(map[string]*Claim), hooked: hooks(client),
	}
	n.life, n.die = context.WithCancel(context.Background())
	return n, nil
}

// Close ends the subscriptions and what runs in the background.
func (n *Node) Close(ctx context.Context) error {
	n.die()
	n.mu.Lock()
	for _, s := range n.subs {
		n.working.Go(func() { _ = s.pubsub.Close() }) // which ends its reader
	}
	n.mu.Unlock()
	select {
	case <-n.working.None():
		return nil
	case <-ctx.Done():
		return errors.New("the client still hangs in a call: " + ctx.Err().Error())
	}
}

// Time returns about what time it is on the server, in microseconds since 1970.
func (n *Node) Time() int64 { return n.time.Now() }

// checkEviction has the operator warned of a server that throws keys away when its memory is full. It asks nothing if
// nobody would hear the warning.
func (n *Node) checkEviction() {
	log := n.opts.Logger
	if !log.Enabled(n.life, slog.LevelWarn) {
		return
	}
	n.working.Go(func() {
		info, _ := n.client.Info(n.life, "memory").Result() // the user may not ask, or the server is away
		_, policy, _ := strings.Cut(info, "\nmaxmemory_policy:")
		policy, _, _ = strings.Cut(policy, "\r")
		if policy != "" && policy != "noeviction" && !strings.Contains(info, "\nmaxmemory:0\r") {
			log.Warn("locker: redis: the server may throw locks away when its memory is full; "+
				"set maxmemory-policy to noeviction", "maxmemory-policy", policy)
		}
	})
}
