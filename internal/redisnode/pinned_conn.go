package redisnode

import (
	"context"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// pinnedFor is how long a connection is kept at least that is not used.
	pinnedFor = 50 * time.Millisecond
	// pinnedAtMost is how many times that it is kept in any case: go-redis looks after its
	// connections while they are in its pool.
	pinnedAtMost = 20
	// roomy is how many connections a pool has at least of which one may be kept.
	roomy = 4
)

// pinnedConn sends requests in place to one server. While one soon follows the other it keeps a
// connection out of the client's pool for them: to take one from there, see whether it still stands
// and put it back is a tenth to a seventh of what a contended lock costs. Those that come while
// it is in use go by the pool.
type pinnedConn struct {
	client *goredis.Client // the caller's, but impatient
	roomy  bool

	mu     sync.Mutex // held while conn is used
	conn   *goredis.Conn
	used   bool // since the last look
	looks  int  // since conn was taken
	timer  *time.Timer
	last   time.Time // when the last request was sent that went by the pool
	closed bool
}

func newPinnedConn(client *goredis.Client) *pinnedConn {
	o := client.Options()
	limit := patience
	if o.ReadTimeout > 0 {
		limit = min(limit, o.ReadTimeout)
	}
	return &pinnedConn{
		client: client.WithTimeout(limit),
		roomy:  o.PoolSize >= roomy && (o.MaxActiveConns == 0 || o.MaxActiveConns >= roomy),
	}
}

// Process sends cmd.
func (p *pinnedConn) Process(ctx context.Context, cmd goredis.Cmder) error {
	if !p.mu.TryLock() {
		return p.client.Process(ctx, cmd)
	}
	defer p.mu.Unlock()
	if p.conn == nil && !p.pin() {
		return p.client.Process(ctx, cmd)
	}
	p.used = true
	err := p.conn.Process(ctx, cmd)
	if err != nil {
		p.giveBack() // it may be broken, or lead to a server that is no longer the right one
	}
	return err
}

// pin keeps a connection if a request was sent not long ago.
func (p *pinnedConn) pin() bool {
	now := time.Now()
	again := now.Sub(p.last) < pinnedFor
	p.last = now
	if !again || !p.roomy || p.closed {
		return false
	}
	p.conn, p.looks = p.client.Conn(), 0
	if p.timer == nil {
		p.timer = time.AfterFunc(pinnedFor, p.look)
	} else {
		p.timer.Reset(pinnedFor)
	}
	return true
}

// giveBack leaves the connection to the pool, which closes it if it is broken.
func (p *pinnedConn) giveBack() {
	_ = p.conn.Close()
	p.conn = nil
	p.timer.Stop()
}

// look gives back a connection that has been kept for long enough.
func (p *pinnedConn) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == nil {
		return
	}
	if p.looks++; p.used && p.looks < pinnedAtMost {
		p.used = false
		p.timer.Reset(pinnedFor)
		return
	}
	p.giveBack()
}

// close has nothing kept any more.
func (p *pinnedConn) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.conn != nil {
		p.giveBack()
	}
}
