package rivals

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// One session per client, as the documentation of the package has it.
var etcdMutexContender = contender.Contender{
	Family: "etcd.Mutex",
	Note:   "concurrency.Mutex of go.etcd.io/etcd/client/v3 v3.7.3, one session per client",
	Traits: contender.Traits{Waits: true, Renews: true, Fenced: true, MinTTL: 2 * time.Second},
	Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
		conn, err := dial.Etcd(ctx, cfg.Addrs)
		if err != nil {
			return contender.Client{}, err
		}
		s, err := concurrency.NewSession(conn, concurrency.WithTTL(max(1, int(cfg.TTL/time.Second))))
		if err != nil {
			return contender.Client{}, errors.Join(err, conn.Close())
		}
		return contender.Client{
			Acquire: func(ctx context.Context, name string) (contender.Held, error) {
				m := concurrency.NewMutex(s, name)
				return etcdMutexHeld{m.Unlock, m, s}, m.Lock(ctx)
			},
			Try: func(ctx context.Context, name string) (contender.Held, error) {
				m := concurrency.NewMutex(s, name)
				err := m.TryLock(ctx)
				if errors.Is(err, concurrency.ErrLocked) {
					err = contender.ErrTaken
				}
				return etcdMutexHeld{m.Unlock, m, s}, err
			},
			Close: func() error { return errors.Join(s.Close(), conn.Close()) },
		}, nil
	},
}

type etcdMutexHeld struct {
	contender.Plain
	mutex   *concurrency.Mutex
	session *concurrency.Session
}

// Token is the revision of the answer by which the mutex was taken, the only number
// that the mutex gives away.
func (h etcdMutexHeld) Token() int64             { return h.mutex.Header().GetRevision() }
func (h etcdMutexHeld) Context() context.Context { return h.session.Ctx() }
