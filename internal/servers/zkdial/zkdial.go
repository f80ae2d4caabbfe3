// Package zkdial connects to ZooKeeper for tests and comparisons. It is apart from package servers, which modules use that do not
// require go-zookeeper.
package zkdial

import (
	"context"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/go-zookeeper/zk"
)

// Dial connects with go-zookeeper's own defaults, but without its log, and waits for the session; it returns an error when ctx ends.
func Dial(ctx context.Context, addrs []string, session time.Duration) (*zk.Conn, error) {
	conn, events, err := zk.Connect(addrs, session, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, fmt.Errorf("connect to ZooKeeper: %w", err)
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, fmt.Errorf("connect to ZooKeeper: %w", ctx.Err())
		}
	}
}
