package faults

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What only an etcd can do to a lock.
var etcdRows = []Row{
	{Number: 16, Shows: []int{8}, Name: "compaction", Quick: true, Run: compaction, For: []string{etcdFamily},
		See: "the waiter reads again"},
	{Number: 30, Shows: []int{13}, Name: "out-of-space", Run: outOfSpace, Fresh: true, For: []string{etcdFamily},
		Backend: onEtcdWith(servers.EtcdOptions{Args: []string{"--quota-backend-bytes", "2097152"}}),
		See:     "acquire errs; release still works"},
}

// What a waiter watches from is compacted away, and its connection is cut.
func compaction(x *Exam) {
	x.Access.TTL = long
	two := x.holderAndWaiter(2 * time.Minute)
	c, err := EtcdClient(x.Access)
	x.Must(err)
	defer c.Close()
	for range 3 {
		two.b.net.Freeze()
		var rev int64
		for range 50 {
			x.repeats(func(ctx context.Context) error {
				put, err := c.Put(ctx, "other", "value")
				if err == nil {
					rev = put.Header.Revision
				}
				return err
			})
		}
		x.repeats(func(ctx context.Context) error {
			_, err := c.Compact(ctx, rev, clientv3.WithCompactPhysical())
			if errors.Is(err, rpctypes.ErrCompacted) { // by a request without an answer
				return nil
			}
			return err
		})
		two.b.net.Cut()
		two.b.net.Heal()
		time.Sleep(300 * time.Millisecond) // in which the waiter may begin to watch anew, or not
	}
	x.Released(two.held)
	released := time.Now()
	x.Released(x.GoesOn(two.wait, released, 5*time.Second, "the release"))
}

// repeats has a request made until it succeeds: a client does not do so by itself when the leader changes.
func (x *Exam) repeats(request func(context.Context) error) {
	x.Helper()
	x.Must(servers.Poll(x.Within(20*time.Second), request))
}

// The quota of the database is used up.
func outOfSpace(x *Exam) {
	x.Access.TTL = long // the lock is to be held until there is no room
	name, a, b := x.pair()
	ha := x.Acquired(a, name, 10*time.Second)
	x.Warm(b)
	c, err := EtcdClient(x.Access)
	x.Must(err)
	defer c.Close()
	x.Did("fill", false, "", func() error {
		fill := string(bytes.Repeat([]byte("x"), 500<<10))
		for i := 0; ; i++ {
			_, err := c.Put(x.Within(10*time.Second), "filler"+string(rune('a'+i%20)), fill)
			if err != nil && fill != "" {
				fill = "" // a great value is refused before the alarm is raised, a small one after
				continue
			}
			if err != nil && strings.Contains(err.Error(), "database space exceeded") {
				return nil
			}
			if err != nil || i > 10_000 {
				return err
			}
		}
	})
	x.Explains("out of space", b.client, false, "space exceeded")
	start := time.Now()
	x.Released(ha)
	x.Soon("release", start, time.Second)
	_, err = c.AlarmDisarm(x.Within(10*time.Second), &clientv3.AlarmMember{}) // of all members
	x.Must(err)
}
