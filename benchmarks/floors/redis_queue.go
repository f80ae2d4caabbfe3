package floors

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// redisQueue is the least that a lock on Redis can be which is handed to those who wait in
// the order in which they came: a list of who waits, two scripts, and a message to the next.
// It has no token, nothing is renewed, and if a message, an answer or a process is lost everybody
// waits for ever. A client takes one name at a time.
type redisQueue struct {
	conn  *redis.Client
	sub   *redis.PubSub
	id    string // by which it waits, and the channel on which it is told
	ttl   time.Duration
	mine  chan struct{}
	ended chan struct{}
}

var (
	queueTake = redis.NewScript(`
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 1 end
redis.call("RPUSH", KEYS[2], ARGV[1])
return 0`)
	queueGive = redis.NewScript(`
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
local next = redis.call("LPOP", KEYS[2])
if not next then return redis.call("DEL", KEYS[1]) end
redis.call("SET", KEYS[1], next, "PX", ARGV[2])
redis.call("PUBLISH", next, "")
return 1`)
)

func openRedisQueue(ctx context.Context, cfg contender.Config) (contender.Client, error) {
	id := rand.Text()
	conn := dial.Redis(cfg.Addrs[0])
	q := &redisQueue{
		conn: conn, sub: conn.Subscribe(ctx, id), id: id, ttl: cfg.TTL,
		mine: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	if _, err := q.sub.Receive(ctx); err != nil { // that it is subscribed
		return nil, errors.Join(err, q.sub.Close(), conn.Close())
	}
	go q.listen()
	return q, nil
}

func (q *redisQueue) listen() {
	defer close(q.ended)
	for {
		m, err := q.sub.Receive(context.Background())
		if err != nil {
			return
		}
		if _, ok := m.(*redis.Message); ok {
			select {
			case q.mine <- struct{}{}:
			default: // for one that was called off
			}
		}
	}
}

func (q *redisQueue) Acquire(ctx context.Context, name string) (contender.Held, error) {
	keys := []string{name, name + ":queue"}
	free, err := queueTake.Run(ctx, q.conn, keys, q.id, q.ttl.Milliseconds()).Bool()
	if err != nil {
		return nil, err
	}
	if !free {
		select {
		case <-q.mine:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return held(func(ctx context.Context) error {
		n, err := queueGive.Run(ctx, q.conn, keys, q.id, q.ttl.Milliseconds()).Int()
		if err == nil && n != 1 {
			err = fmt.Errorf("not mine any more")
		}
		return err
	}), nil
}

func (q *redisQueue) Close() error {
	err := q.sub.Close()
	<-q.ended
	return errors.Join(err, q.conn.Close())
}
