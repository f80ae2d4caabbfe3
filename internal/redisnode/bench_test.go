package redisnode

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/internal/servers"
)

// BenchmarkServer reports how long the server works for a request: to take and to release a name that nobody
// else wants, and to join its queue and to grant it from there.
func BenchmarkServer(b *testing.B) {
	server := servers.NewRedis(b, servers.RedisOptions{})
	client := connect(b, server.Addr())
	n := open(b, client)
	ctx := context.Background()
	take := func(c *Claim, how How) {
		if _, err := n.Acquire(ctx, c, how); err != nil {
			b.Fatal(err)
		}
	}
	release := func(c *Claim) {
		if err := n.Release(ctx, c.Claim); err != nil && err != driver.ErrGone {
			b.Fatal(err)
		}
	}
	measure := func(name string, requests int, f func()) {
		b.Run(name, func(b *testing.B) {
			f()
			client.ConfigResetStat(ctx)
			for b.Loop() {
				f()
			}
			info := client.Info(ctx, "commandstats").Val()
			_, rest, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
			_, rest, _ = strings.Cut(rest, "usec=")
			rest, _, _ = strings.Cut(rest, ",")
			took, _ := strconv.Atoi(rest)
			b.ReportMetric(float64(took)/float64(b.N)/float64(requests), "server-us/request")
		})
	}
	measure("alone", 2, func() {
		c := n.exclusive("alone")
		take(c, Try)
		release(c)
	})
	last := n.exclusive("queued")
	n.Join(last, func(Answer) {})
	if err := n.Ready(ctx, last); err != nil {
		b.Fatal(err)
	}
	take(last, Queue)
	measure("queued", 2, func() {
		c := n.exclusive("queued")
		n.Join(c, func(Answer) {})
		take(c, Queue)
		release(last)
		last = c
	})
}
