package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// ReplicatedRedis is a master with replicas. The names are those of the start: a
// failover does not change them.
type ReplicatedRedis struct {
	Master   *Redis
	Replicas []*Redis
}

// StartReplicatedRedis starts a master and its replicas, and returns when every
// replica is in step.
func StartReplicatedRedis(ctx context.Context, replicas int, opts RedisOptions) (*ReplicatedRedis, error) {
	// Replicas are served at once, not after five seconds.
	quick := []string{"repl-diskless-sync yes", "repl-diskless-sync-delay 0"}
	master, err := startRedis(ctx, opts, func(*Redis) []string { return quick })
	if err != nil {
		return nil, err
	}
	g := &ReplicatedRedis{Master: master}
	return orClose(g, g.replicate(ctx, replicas, opts, quick))
}

// replicate starts replicas and waits until they are in step.
func (g *ReplicatedRedis) replicate(ctx context.Context, replicas int, opts RedisOptions, quick []string) error {
	for range replicas {
		r, err := startRedis(ctx, opts, func(r *Redis) []string {
			lines := append([]string{"replicaof " + strings.Replace(g.Master.Addr(), ":", " ", 1)}, quick...)
			if opts.TLS {
				r.certs = g.Master.certs
				lines = append(lines, "tls-replication yes")
				lines = append(lines, tlsLines(r.certs)...)
			}
			return lines
		})
		if err != nil {
			return err
		}
		g.Replicas = append(g.Replicas, r)
	}
	return pollRedis(ctx, "replica", g.Replicas, func(ctx context.Context, r *Redis) error {
		v, err := r.Do(ctx, "INFO", "replication")
		if text, _ := v.(string); err == nil && !strings.Contains(text, "master_link_status:up") {
			err = errors.New("the replica has not reached its master")
		}
		return err
	})
}

// All returns the master and then the replicas.
func (g *ReplicatedRedis) All() []*Redis { return append([]*Redis{g.Master}, g.Replicas...) }

func (g *ReplicatedRedis) servers() []*Server { return serversOf(g.All()) }

// Close ends all of them for good.
func (g *ReplicatedRedis) Close() error { return closeAll(g.servers()) }

// RedisSentinel is a master with replicas that Sentinels watch over.
type RedisSentinel struct {
	*ReplicatedRedis
	// MasterName is the name by which Sentinels know the master.
	MasterName string
	// Sentinels are servers like others: kill them, pause them.
	Sentinels []*Redis
}

// StartRedisSentinel starts a master, one replica and three Sentinels, which fail over
// when the master was silent for a minute; see [RedisSentinel.FailOverAfter]. It returns
// when the Sentinels know the replica and each other.
func StartRedisSentinel(ctx context.Context, opts RedisOptions) (*RedisSentinel, error) {
	if opts.TLS {
		return nil, errors.New("servers: Sentinel with TLS is not offered")
	}
	replicated, err := StartReplicatedRedis(ctx, 1, opts)
	if err != nil {
		return nil, err
	}
	g := &RedisSentinel{ReplicatedRedis: replicated, MasterName: "locker"}
	return orClose(g, g.watch(ctx, opts))
}

// watch starts the Sentinels and waits until they know each other.
func (g *RedisSentinel) watch(ctx context.Context, opts RedisOptions) error {
	for range 3 {
		s, err := startRedis(ctx, RedisOptions{Args: []string{"--sentinel"}}, func(*Redis) []string {
			lines := []string{
				fmt.Sprintf("sentinel monitor %s %s 2", g.MasterName, strings.Replace(g.Master.Addr(), ":", " ", 1)),
				"sentinel down-after-milliseconds " + g.MasterName + " 60000", // a master that is late is not dead
				"sentinel failover-timeout " + g.MasterName + " 5000",
			}
			if opts.Password != "" {
				lines = append(lines, "sentinel auth-pass "+g.MasterName+" "+opts.Password)
			}
			return lines
		})
		if err != nil {
			return err
		}
		g.Sentinels = append(g.Sentinels, s)
	}
	return pollRedis(ctx, "sentinel", g.Sentinels, g.met)
}

// FailOverAfter has the Sentinels fail over when the master was silent for d.
func (g *RedisSentinel) FailOverAfter(ctx context.Context, d time.Duration) error {
	return together(len(g.Sentinels), func(i int) error {
		_, err := g.Sentinels[i].Do(ctx, "SENTINEL", "SET", g.MasterName, "down-after-milliseconds", fmt.Sprint(d.Milliseconds()))
		return err
	})
}

// met asks a Sentinel whether it knows the replica and the other Sentinels.
func (g *RedisSentinel) met(ctx context.Context, s *Redis) error {
	v, err := s.Do(ctx, "SENTINEL", "MASTER", g.MasterName)
	if err != nil {
		return err
	}
	fields, _ := v.([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		if (fields[i] == "num-slaves" && fields[i+1] != "1") || (fields[i] == "num-other-sentinels" && fields[i+1] != "2") {
			return fmt.Errorf("%v is %v", fields[i], fields[i+1])
		}
	}
	return nil
}

// SentinelAddrs returns the addresses of the Sentinels.
func (g *RedisSentinel) SentinelAddrs() []string { return addrsOf(serversOf(g.Sentinels)) }

// CurrentMaster asks the Sentinels which server is the master now.
func (g *RedisSentinel) CurrentMaster(ctx context.Context) (*Redis, error) {
	var errs []error
	for _, s := range g.Sentinels {
		v, err := s.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", g.MasterName)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if pair, _ := v.([]any); len(pair) == 2 {
			addr := net.JoinHostPort(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
			for _, r := range g.All() {
				if r.Addr() == addr {
					return r, nil
				}
			}
		}
		errs = append(errs, fmt.Errorf("sentinel at %s answered %v", s.Addr(), v))
	}
	return nil, errors.Join(errs...)
}

func (g *RedisSentinel) servers() []*Server {
	return append(serversOf(g.Sentinels), g.ReplicatedRedis.servers()...)
}

// Close ends the Sentinels and the servers for good.
func (g *RedisSentinel) Close() error { return closeAll(g.servers()) }
