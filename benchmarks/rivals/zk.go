package rivals

import (
	"context"
	"net/url"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// One connection per client.
var zkLockContender = contender.Contender{
	Family: "zk.Lock",
	Note:   "Lock of github.com/go-zookeeper/zk v1.0.4, one connection per client",
	Traits: contender.Traits{Waits: true, Renews: true, MinTTL: time.Second},
	Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
		conn, err := dial.ZooKeeper(ctx, cfg.Addrs, cfg.TTL)
		if err != nil {
			return contender.Client{}, err
		}
		return contender.Client{
			Acquire: func(ctx context.Context, name string) (contender.Held, error) {
				l := zk.NewLock(conn, "/locks/"+url.PathEscape(name), zk.WorldACL(zk.PermAll))
				return zkLockHeld(l), lockWithin(ctx, l)
			},
			Close: contender.Closing(conn.Close),
		}, nil
	},
}

// lockWithin takes l. zk.Lock knows no context; to have one at all, its call is
// made aside and undone when it comes too late, as any user of it would have to.
func lockWithin(ctx context.Context, l *zk.Lock) error {
	if ctx.Done() == nil {
		return l.Lock()
	}
	done := make(chan error, 1)
	go func() { done <- l.Lock() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				_ = l.Unlock()
			}
		}()
		return ctx.Err()
	}
}

func zkLockHeld(l *zk.Lock) contender.Held {
	return contender.Plain(func(context.Context) error { return l.Unlock() })
}
