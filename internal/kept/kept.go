// Package kept keeps a connection to a Redis at hand for those who use it again and
// again.
package kept

import (
	"context"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// Idle is how long a connection is kept at least that is not used, and at most
	// twice that.
	Idle = 50 * time.Millisecond
	// looks is for how many times that it is kept in any case: go-redis looks after its
	// connections while they are in its pool.
	looks = 20
	// Roomy is how many connections a pool has at least of which one may be kept.
	Roomy = 4
)

// Sender is what is used of a client, or of a connection, to send commands.
type Sender interface {
	Process(ctx context.Context, cmd goredis.Cmder) error
	Pipeline() goredis.Pipeliner
}

// Conn sends commands to one server. While one soon follows the other it keeps a
// connection out of the client's pool for them: to take one from there, see whether it
// still stands and put it back is about a tenth of what the client has to do for a
// command. Those that come while it is in use go by the pool.
type Conn struct {
	client *goredis.Client
	roomy  bool

	mu     sync.Mutex // held while conn is used
	conn   *goredis.Conn
	used   bool // since the last look
	looked int  // how often since conn was taken
	alarm  *time.Timer
	last   time.Time // when something was sent that went by the pool
	closed bool
}

// Of returns a Conn that takes its connections from the pool of client.
func Of(client *goredis.Client) *Conn {
	o := client.Options()
	return &Conn{client: client, roomy: o.PoolSize >= Roomy && (o.MaxActiveConns == 0 || o.MaxActiveConns >= Roomy)}
}

// Process sends one command.
func (k *Conn) Process(ctx context.Context, cmd goredis.Cmder) error {
	return k.Use(func(s Sender) error { return s.Process(ctx, cmd) })
}

// Use calls send with the connection that is at hand, or with the client. After an error
// the connection is not kept: it may be broken, or lead to a server that is no longer
// the right one.
func (k *Conn) Use(send func(Sender) error) error {
	if !k.mu.TryLock() {
		return send(k.client)
	}
	defer k.mu.Unlock()
	if k.conn == nil && !k.take() {
		return send(k.client)
	}
	k.used = true
	err := send(k.conn)
	if err != nil {
		k.giveBack()
	}
	return err
}

// take keeps a connection if something was sent not long ago.
func (k *Conn) take() bool {
	now := time.Now()
	again := now.Sub(k.last) < Idle
	k.last = now
	if !again || !k.roomy || k.closed {
		return false
	}
	k.conn, k.looked = k.client.Conn(), 0
	if k.alarm == nil {
		k.alarm = time.AfterFunc(Idle, k.look)
	} else {
		k.alarm.Reset(Idle)
	}
	return true
}

// giveBack leaves the connection to the pool, which closes it if it is broken.
func (k *Conn) giveBack() {
	_ = k.conn.Close()
	k.conn = nil
	k.alarm.Stop()
}

// look gives back a connection that has been kept for long enough.
func (k *Conn) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return
	}
	if k.looked++; k.used && k.looked < looks {
		k.used = false
		k.alarm.Reset(Idle)
		return
	}
	k.giveBack()
}

// Close gives back what is kept. From now on everything goes by the pool.
func (k *Conn) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.conn != nil {
		k.giveBack()
	}
}
