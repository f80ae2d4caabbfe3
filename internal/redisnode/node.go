// Package redisnode is what the backends redis and redlock have in common: the requests about
// locks to one logical Redis, which is a single server, a master that Sentinels look after, or a
// Cluster. What is on the server is described in lua/lib.lua.
//
// A [Node] sends the requests about a [Claim], returns soon after their context has ended whatever
// the client does, and tells waiting claims what the server says. It decides nothing.
package redisnode

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/driver"
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
	id      string // of this node in its channels, 16 hexadecimal digits
	clock   driver.Clock
	time    *serverTime
	scripts scripts
	subs    *subscriptions

	dials   *hookWatch     // of a client that is not one of a Cluster, or nil
	brisk   atomic.Bool    // the server was quick to answer last time
	quick   sync.Map       // *goredis.Client to *pinnedConn
	working underway.Group // what runs in the background
	life    context.Context
	die     context.CancelFunc
	policy  sync.Once
}

// cluster is what is used of a client of a Cluster.
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
	sharded, err := isCluster(client)
	if err != nil {
		return nil, err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: the program would have ended
	n := &Node{
		client:  client,
		opts:    o,
		keys:    keys{o.Prefix, o.Kind},
		id:      hex.EncodeToString(id[:]),
		clock:   o.Clock,
		time:    newServerTime(o.Clock),
		scripts: newScripts(sharded),
	}
	if sharded {
		n.cluster = client.(cluster)
	}
	if c, ok := client.(*goredis.Client); ok {
		n.dials = watchHooks(c, c)
	}
	n.life, n.die = context.WithCancel(context.Background())
	n.subs = newSubscriptions(n)
	return n, nil
}

// isCluster reports whether client speaks to a Cluster. A client that embeds one of go-redis's is
// known by its methods.
func isCluster(client goredis.UniversalClient) (bool, error) {
	c, isClient := client.(*goredis.Client)
	cc, isCluster := client.(*goredis.ClusterClient)
	if client == nil || isClient && c == nil || isCluster && cc == nil {
		return false, fmt.Errorf("%w: nil client", locker.ErrInvalidOption)
	}
	if _, ring := client.(interface{ SetAddrs(map[string]string) }); ring {
		return false, fmt.Errorf("%w: a Ring moves locks when a server is away", locker.ErrInvalidOption)
	}
	_, sharded := client.(cluster)
	return sharded, nil
}

// Close ends the subscriptions and what runs in the background.
func (n *Node) Close(ctx context.Context) error {
	n.die()
	n.subs.close()
	n.quick.Range(func(_, p any) bool {
		p.(*pinnedConn).close()
		return true
	})
	select {
	case <-n.working.None():
		return nil
	case <-ctx.Done():
		return errors.New("the client still hangs in a call: " + ctx.Err().Error())
	}
}
