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
func watchMulti() contender.Contender {
	return contender.Contender{
		Name:   "naive.watch-multi",
		Family: "naive",
		Role:   contender.Exhibit,
		Setup:  contender.Setup{Service: contender.Redis, Nodes: 1},
		Note:   "WATCH, EXISTS, MULTI, SETNX, PEXPIRE, EXEC; asked again at once if EXEC was discarded, after 10 ms if the key was taken",
		Traits: contender.Traits{Waits: true},
		Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
			return watcher{dial.Redis(cfg.Addrs[0]), cfg.TTL}, nil
		},
	}
}

type watcher struct {
	conn *redis.Client
	ttl  time.Duration
}

func (w watcher) Acquire(ctx context.Context, key string) (contender.Held, error) {
	value := rand.Text()
	for {
		err := w.conn.Watch(ctx, func(tx *redis.Tx) error {
			taken, err := tx.Exists(ctx, key).Result()
			if err != nil {
				return err
			}
			if taken > 0 {
				return contender.ErrTaken
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.SetNX(ctx, key, value, 0)
				p.PExpire(ctx, key, w.ttl)
				return nil
			})
			return err
		}, key)
		switch {
		case err == nil:
			return watched{w.conn, key, value}, nil
		case errors.Is(err, contender.ErrTaken):
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case !errors.Is(err, redis.TxFailedErr):
			return nil, err
		}
	}
}

func (w watcher) Close() error { return w.conn.Close() }

type watched struct {
	conn       *redis.Client
	key, value string
}

func (watched) Token() int64 { return 0 }

func (h watched) Release(ctx context.Context) error {
	return h.conn.Watch(ctx, func(tx *redis.Tx) error {
		value, err := tx.Get(ctx, h.key).Result()
		if err != nil {
			return err
		}
		if value != h.value {
			return errors.New("not mine any more")
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, h.key)
			return nil
		})
		return err
	}, h.key)
}
