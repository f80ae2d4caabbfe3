package exhibits

import (
	"context"
	"net/url"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

type recipe func(ctx context.Context, conn *zk.Conn, name string) (contender.Held, error)

// exhibit makes a contender of a recipe and, if it has one, of its recipe for readers.
func exhibit(name, note string, lock, read recipe) contender.Contender {
	return contender.Contender{
		Name:   name,
		Family: "naive",
		Setup:  contender.ZooKeeper1,
		Note:   note,
		Traits: contender.Traits{Waits: true, Renews: true, Shared: read != nil},
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			conn, err := dial.ZooKeeper(ctx, cfg.Addrs, cfg.TTL)
			if err != nil {
				return contender.Client{}, err
			}
			acquire := func(ctx context.Context, name string, k contender.Kind) (contender.Held, error) {
				take := lock
				if k.Shared {
					take = read
				}
				return take(ctx, conn, url.PathEscape(name))
			}
			client := contender.Client{AcquireKind: acquire, Close: contender.Closing(conn.Close)}
			return client.As(contender.Kind{}), nil
		},
	}
}

type node struct {
	conn *zk.Conn
	path string
}

func (node) Token() int64                    { return 0 }
func (n node) Release(context.Context) error { return n.conn.Delete(n.path, -1) }

var anyone = zk.WorldACL(zk.PermAll)

// oneNode: whoever creates the node has the lock; its end wakes everybody.
func oneNode(ctx context.Context, conn *zk.Conn, name string) (contender.Held, error) {
	path := "/naive-" + name
	for {
		_, err := conn.Create(path, nil, zk.FlagEphemeral, anyone)
		if err == nil {
			return node{conn, path}, nil
		}
		if err != zk.ErrNodeExists {
			return nil, err
		}
		exists, _, gone, err := conn.ExistsW(path)
		if err == nil && exists {
			err = wait(ctx, gone)
		}
		if err != nil {
			return nil, err
		}
	}
}

// allChildren: the lowest node has the lock; every change of the queue wakes everybody
// in it.
func allChildren(ctx context.Context, conn *zk.Conn, name string) (contender.Held, error) {
	return whileWatched(ctx, conn, "/naive-children-"+name, writer)
}

func wait(ctx context.Context, watch <-chan zk.Event) error {
	select {
	case ev := <-watch:
		return ev.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}
