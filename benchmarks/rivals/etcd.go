package rivals

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// One session per client, as the documentation of the package has it.
func etcdMutexContender(nodes int) contender.Contender {
	setup := contender.Setup{Service: contender.Etcd, Nodes: nodes}
	return contender.Contender{
		Name:   name("etcd.Mutex", setup),
		Family: "etcd.Mutex",
		Role:   contender.Rival,
		Setup:  setup,
		Note:   "concurrency.Mutex of go.etcd.io/etcd/client/v3 v3.7.3, one session per client",
		Traits: contender.Traits{Waits: true, Renews: true, Fenced: true, MinTTL: 2 * time.Second},
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			conn, err := dial.Etcd(ctx, cfg.Addrs)
			if err != nil {
				return nil, err
			}
			s, err := concurrency.NewSession(conn, concurrency.WithTTL(max(1, int(cfg.TTL/time.Second))))
			if err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return &etcdMutexClient{conn: conn, session: s}, nil
		},
	}
}

type etcdMutexClient struct {
	conn    *clientv3.Client
	session *concurrency.Session
}

func (c *etcdMutexClient) Acquire(ctx context.Context, name string) (contender.Held, error) {
	m := concurrency.NewMutex(c.session, name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return &etcdMutexHeld{mutex: m, session: c.session}, nil
}

func (c *etcdMutexClient) Try(ctx context.Context, name string) (contender.Held, error) {
	m := concurrency.NewMutex(c.session, name)
	err := m.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		return nil, contender.ErrTaken
	}
	if err != nil {
		return nil, err
	}
	return &etcdMutexHeld{mutex: m, session: c.session}, nil
}

func (c *etcdMutexClient) Close() error {
	return errors.Join(c.session.Close(), c.conn.Close())
}

type etcdMutexHeld struct {
	mutex   *concurrency.Mutex
	session *concurrency.Session
}

// Token is the revision of the answer by which the mutex was taken, the only number
// that the mutex gives away.
func (h *etcdMutexHeld) Token() int64                      { return h.mutex.Header().GetRevision() }
func (h *etcdMutexHeld) Context() context.Context          { return h.session.Ctx() }
func (h *etcdMutexHeld) Release(ctx context.Context) error { return h.mutex.Unlock(ctx) }
