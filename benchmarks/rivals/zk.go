package rivals

import (
	"context"
	"net/url"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// One connection per client. zk.Lock knows no context; to have one at all, its call is
// made aside and undone when it comes too late, as any user of it would have to.
func zkLockContender(nodes int, v contender.Variant) contender.Contender {
	setup := contender.Setup{Service: contender.ZooKeeper, Nodes: nodes, Variant: v}
	return contender.Contender{
		Name:   name("zk.Lock", setup),
		Family: "zk.Lock",
		Role:   contender.Rival,
		Setup:  setup,
		Note:   "Lock of github.com/go-zookeeper/zk v1.0.4, one connection per client",
		Traits: contender.Traits{Waits: true, Renews: true, MinTTL: time.Second},
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			conn, err := dial.ZooKeeper(ctx, cfg.Addrs, cfg.TTL)
			if err != nil {
				return nil, err
			}
			return &zkLockClient{conn}, nil
		},
	}
}

type zkLockClient struct{ conn *zk.Conn }

func (c *zkLockClient) Acquire(ctx context.Context, name string) (contender.Held, error) {
	l := zk.NewLock(c.conn, "/locks/"+url.PathEscape(name), zk.WorldACL(zk.PermAll))
	if ctx.Done() == nil {
		return zkLockHeld{l}, l.Lock()
	}
	done := make(chan error, 1)
	go func() { done <- l.Lock() }()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return zkLockHeld{l}, nil
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				_ = l.Unlock()
			}
		}()
		return nil, ctx.Err()
	}
}

func (c *zkLockClient) Close() error {
	c.conn.Close()
	return nil
}

type zkLockHeld struct{ lock *zk.Lock }

func (zkLockHeld) Token() int64                    { return 0 }
func (h zkLockHeld) Release(context.Context) error { return h.lock.Unlock() }
