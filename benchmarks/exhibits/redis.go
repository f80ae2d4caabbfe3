package exhibits

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// watchMulti takes a key in a transaction: WATCH, EXISTS, MULTI, SETNX, PEXPIRE, EXEC.
//
// What is wrong with it: SET NX PX does the same in one request. This takes six, in three round
// trips, and five more to let go, and keeps a connection for itself meanwhile.
// EXEC is discarded whenever anybody touches the key between, whether or not the key is free then, so
// that those who compete try again the more often the more they are. Nobody is woken: who finds the
// key taken asks again after a pause. Nothing is renewed, and there is no token.
var watchMulti = contender.Contender{
	Name:   "naive.watch-multi",
	Family: "naive",
	Setup:  contender.Redis1,
	Note:   "WATCH, EXISTS, MULTI, SETNX, PEXPIRE, EXEC; asked again at once if EXEC was discarded, after 10 ms if the key was taken",
	Traits: contender.Traits{Waits: true},
	Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
		conn := dial.Redis(cfg.Addrs[0])
		try := func(ctx context.Context, key string) (contender.Held, error) {
			value := rand.Text()
			err := watchAndSet(ctx, conn, key, value, cfg.TTL)
			return contender.Plain(func(ctx context.Context) error { return watchAndDelete(ctx, conn, key, value) }), err
		}
		return contender.Client{Acquire: contender.AskEvery(10*time.Millisecond, try), Close: conn.Close}, nil
	},
}

// watchAndSet sets the key; it returns ErrTaken if somebody else has.
func watchAndSet(ctx context.Context, conn *redis.Client, key, value string, ttl time.Duration) error {
	for {
		err := conn.Watch(ctx, func(tx *redis.Tx) error {
			taken, err := tx.Exists(ctx, key).Result()
			if err != nil {
				return err
			}
			if taken > 0 {
				return contender.ErrTaken
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.SetNX(ctx, key, value, 0)
				p.PExpire(ctx, key, ttl)
				return nil
			})
			return err
		}, key)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

// watchAndDelete removes the key if it is mine.
func watchAndDelete(ctx context.Context, conn *redis.Client, key, mine string) error {
	return conn.Watch(ctx, func(tx *redis.Tx) error {
		value, err := tx.Get(ctx, key).Result()
		if err != nil {
			return err
		}
		if value != mine {
			return errors.New("not mine any more")
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, key)
			return nil
		})
		return err
	}, key)
}
