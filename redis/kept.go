package redis

import (
	"cmp"
	"context"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// keptFor is how long a connection is kept at least that is not used, and at most
	// twice that.
	keptFor = 50 * time.Millisecond
	// keptAtMost is for how many times that it is kept in any case: go-redis looks after
	// its connections while they are in its pool.
	keptAtMost = 20
	// roomy is how many connections a pool has at least of which one may be kept.
	roomy = 4
)

// keptConn sends commands to one server. While one soon follows the other it keeps a
// connection out of the client's pool for them: to take one from there, see whether it
// still stands and put it back is about a tenth of what the client has to do for a
// command. Those that come while it is in use go by the pool.
type keptConn struct {
	client *goredis.Client
	roomy  bool

	mu     sync.Mutex // held while conn is used
	conn   *goredis.Conn
	pipe   goredis.Pipeliner // of conn
	used   bool              // since the last look
	looks  int               // since conn was taken
	alarm  *time.Timer
	last   time.Time // when the last command was sent that went by the pool
	closed bool
}

func newKeptConn(client *goredis.Client) *keptConn {
	o := client.Options()
	return &keptConn{client: client, roomy: o.PoolSize >= roomy && (o.MaxActiveConns == 0 || o.MaxActiveConns >= roomy)}
}

func (k *keptConn) process(ctx context.Context, cmd goredis.Cmder) error {
	if !k.mu.TryLock() {
		return k.client.Process(ctx, cmd)
	}
	defer k.mu.Unlock()
	if k.conn == nil && !k.take() {
		return k.client.Process(ctx, cmd)
	}
	k.used = true
	err := k.send(ctx, cmd)
	if err != nil {
		k.giveBack() // it may be broken, or lead to a server that is no longer the right one
	}
	return err
}

// send sends cmd, behind a PING if what it tells others is urgent. A server writes last to the
// client for which it had something first (networking.c, putClientInPendingWriteQueue): without
// the PING that is the next holder, since the answer to the one who releases comes after the
// news; with it that is the one who releases.
func (k *keptConn) send(ctx context.Context, cmd goredis.Cmder) error {
	c, ok := cmd.(urgent)
	if !ok {
		return k.conn.Process(ctx, cmd)
	}
	_ = k.pipe.BatchProcess(ctx, goredis.NewCmd(ctx, ping...), c)
	_, err := k.pipe.Exec(ctx)
	if c.Err() == nil && c.Val() != nil {
		return nil // whatever became of the PING
	}
	return cmp.Or(c.Err(), err)
}

// take keeps a connection if a command was sent not long ago.
func (k *keptConn) take() bool {
	now := time.Now()
	again := now.Sub(k.last) < keptFor
	k.last = now
	if !again || !k.roomy || k.closed {
		return false
	}
	k.conn, k.looks = k.client.Conn(), 0
	k.pipe = k.conn.Pipeline()
	if k.alarm == nil {
		k.alarm = time.AfterFunc(keptFor, k.look)
	} else {
		k.alarm.Reset(keptFor)
	}
	return true
}

// giveBack leaves the connection to the pool, which closes it if it is broken.
func (k *keptConn) giveBack() {
	_ = k.conn.Close()
	k.conn, k.pipe = nil, nil
	k.alarm.Stop()
}

// look gives back a connection that has been kept for long enough.
func (k *keptConn) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn == nil {
		return
	}
	if k.looks++; k.used && k.looks < keptAtMost {
		k.used = false
		k.alarm.Reset(keptFor)
		return
	}
	k.giveBack()
}

// close has nothing kept any more.
func (k *keptConn) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.conn != nil {
		k.giveBack()
	}
}
