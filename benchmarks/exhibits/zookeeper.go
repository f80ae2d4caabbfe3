// Package exhibits has what nobody should use, kept to show what the warnings are about:
// the naive recipes of the articles, and no lock at all.
package exhibits

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
)

// All returns the exhibits.
func All() []contender.Contender {
	return []contender.Contender{
		noLock(),
		watchMulti(),
		exhibit("naive.one-node", "one ephemeral node of a fixed name; every waiter watches it and all try again when it goes", oneNode, nil),
		exhibit("naive.all-children", "sequential nodes; every waiter watches the parent's children and all list them at every change", allChildren, nil),
		exhibit("naive.rw-parent", "read/write: sequential nodes; everybody watches the parent's children and all list them at every change", parentWatched(writer), parentWatched(reader)),
		exhibit("naive.rw-last-writer", "read/write: sequential nodes; a reader watches the last writer ahead, a writer whoever is just ahead", lastWriterWatched(writer), lastWriterWatched(reader)),
		postgresExhibit("naive.pg-row", "a unique row inserted and deleted; asked again after 10 ms if it was there", insertRow),
		postgresExhibit("naive.pg-for-update", "SELECT ... FOR UPDATE of a row, in a transaction that is open for as long as the lock is held", selectForUpdate),
		postgresExhibit("naive.pg-advisory", "pg_advisory_lock of the name's hash, on a connection that is kept for as long as the lock is held", advisoryLock),
	}
}

type recipe func(ctx context.Context, conn *zk.Conn, name string) (contender.Held, error)

// exhibit makes a contender of a recipe and, if it has one, of its recipe for readers.
func exhibit(name, note string, lock, read recipe) contender.Contender {
	return contender.Contender{
		Name:   name,
		Family: "naive",
		Role:   contender.Exhibit,
		Setup:  contender.Setup{Service: contender.ZooKeeper, Nodes: 1},
		Note:   note,
		Traits: contender.Traits{Waits: true, Renews: true, Shared: read != nil},
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			conn, err := dial.ZooKeeper(ctx, cfg.Addrs, cfg.TTL)
			if err != nil {
				return nil, err
			}
			return client{conn, lock, read}, nil
		},
	}
}

type client struct {
	conn       *zk.Conn
	lock, read recipe
}

func (c client) Acquire(ctx context.Context, name string) (contender.Held, error) {
	return c.lock(ctx, c.conn, url.PathEscape(name))
}

func (c client) AcquireKind(ctx context.Context, name string, k contender.Kind) (contender.Held, error) {
	if !k.Shared {
		return c.Acquire(ctx, name)
	}
	return c.read(ctx, c.conn, url.PathEscape(name))
}

func (c client) Close() error {
	c.conn.Close()
	return nil
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
		if err != nil {
			return nil, err
		}
		if !exists {
			continue
		}
		if err := wait(ctx, gone); err != nil {
			return nil, err
		}
	}
}

// allChildren: the lowest node has the lock; every change of the queue wakes everybody
// in it.
func allChildren(ctx context.Context, conn *zk.Conn, name string) (contender.Held, error) {
	parent := "/naive-children-" + name
	if _, err := conn.Create(parent, nil, 0, anyone); err != nil && err != zk.ErrNodeExists {
		return nil, err
	}
	path, err := conn.Create(parent+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, anyone)
	if err != nil {
		return nil, err
	}
	mine := node{conn, path}
	for {
		children, _, changed, err := conn.ChildrenW(parent)
		if err != nil {
			return nil, err
		}
		if len(children) == 0 {
			return nil, fmt.Errorf("own node is gone")
		}
		if strings.HasSuffix(path, "/"+slices.Min(children)) {
			return mine, nil
		}
		if err := wait(ctx, changed); err != nil {
			_ = mine.Release(ctx)
			return nil, err
		}
	}
}

func wait(ctx context.Context, watch <-chan zk.Event) error {
	select {
	case ev := <-watch:
		return ev.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}
