package exhibits

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// The two recipes make a sequential node r-N for a reader and w-N for a writer. A reader
// has the lock when no writer is ahead of it, a writer when nobody is. What is wrong with both:
// every look reads the names of the whole queue; if the reply to the creation of a node is lost,
// the node stays and holds everybody up until its session ends; there is no token.
const (
	reader = "r-"
	writer = "w-"
)

// parentWatched: everybody, readers and writers, watches the parent. Wrong with it besides:
// whoever comes or goes wakes all who wait, and each of them reads the whole queue again: of n
// that wait n² names are read until the last has had its turn.
func parentWatched(kind string) recipe {
	return func(ctx context.Context, conn *zk.Conn, name string) (contender.Held, error) {
		return whileWatched(ctx, conn, "/naive-rw-parent-"+name, kind)
	}
}

// whileWatched stands in the queue of parent and watches all of it until nobody is ahead that matters.
func whileWatched(ctx context.Context, conn *zk.Conn, parent, kind string) (contender.Held, error) {
	mine, err := join(conn, parent, kind)
	for err == nil {
		var children []string
		var changed <-chan zk.Event
		if children, _, changed, err = conn.ChildrenW(parent); err != nil {
			break
		}
		if lastAhead(children, mine.path, kind) == "" {
			return mine, nil
		}
		err = wait(ctx, changed)
	}
	return nil, mine.undo(err)
}

// lastWriterWatched: a reader watches the last writer ahead of it, a writer whoever is just
// ahead. Wrong with it besides: readers who wait behind a writer are rightly woken together,
// but they are also woken together, for nothing, when a writer gives up that waited; and a writer
// behind readers watches the last of them, who need not be the last to leave: it is woken, reads
// the whole queue and watches another, up to once for each of them.
func lastWriterWatched(kind string) recipe {
	return func(ctx context.Context, conn *zk.Conn, name string) (contender.Held, error) {
		parent := "/naive-rw-last-writer-" + name
		mine, err := join(conn, parent, kind)
		for err == nil {
			var children []string
			if children, _, err = conn.Children(parent); err != nil {
				break
			}
			ahead := lastAhead(children, mine.path, kind)
			if ahead == "" {
				return mine, nil
			}
			var exists bool
			var gone <-chan zk.Event
			if exists, _, gone, err = conn.ExistsW(parent + "/" + ahead); err == nil && exists {
				err = wait(ctx, gone)
			}
		}
		return nil, mine.undo(err)
	}
}

// join creates the node by which its maker stands in the queue.
func join(conn *zk.Conn, parent, kind string) (node, error) {
	if _, err := conn.Create(parent, nil, 0, anyone); err != nil && err != zk.ErrNodeExists {
		return node{}, err
	}
	path, err := conn.Create(parent+"/"+kind, nil, zk.FlagEphemeral|zk.FlagSequence, anyone)
	return node{conn, path}, err
}

// undo removes the node, if there is one, after err.
func (n node) undo(err error) error {
	if n.path != "" {
		_ = n.conn.Delete(n.path, -1)
	}
	return fmt.Errorf("queue of nodes: %w", err)
}

// lastAhead returns the last of the children that keeps the one at path waiting, "" if
// nobody does.
func lastAhead(children []string, path, kind string) string {
	last := ""
	for _, c := range children {
		if kind == reader && strings.HasPrefix(c, reader) {
			continue
		}
		if sequence(c) < sequence(path) && sequence(c) > sequence(last) {
			last = c
		}
	}
	return last
}

// sequence returns the number that ZooKeeper has put behind a name, in its ten digits.
func sequence(name string) string { return name[max(0, len(name)-10):] }
