package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
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
	master, err := startRedis(ctx, opts, func(*Redis) []string {
		// Replicas are served at once, not after five seconds.
		return []string{"repl-diskless-sync yes", "repl-diskless-sync-delay 0"}
	})
	if err != nil {
		return nil, err
	}
	g := &ReplicatedRedis{Master: master}
	for range replicas {
		r, err := startRedis(ctx, opts, func(r *Redis) []string {
			lines := []string{
				"replicaof " + strings.Replace(master.Addr(), ":", " ", 1),
				"repl-diskless-sync yes", "repl-diskless-sync-delay 0",
			}
			if opts.TLS {
				lines = append(lines, "tls-replication yes",
					"tls-ca-cert-file "+master.certs.ca,
					"tls-cert-file "+master.certs.server,
					"tls-key-file "+master.certs.serverKey)
				r.certs = master.certs
			}
			return lines
		})
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
		g.Replicas = append(g.Replicas, r)
	}
	if err := g.WaitInStep(ctx); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// WaitInStep waits until every replica has a connection to its master that is up.
func (g *ReplicatedRedis) WaitInStep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	for _, r := range g.Replicas {
		err := poll(ctx, func(ctx context.Context) error {
			v, err := r.Do(ctx, "INFO", "replication")
			if err != nil {
				return err
			}
			if text, _ := v.(string); !strings.Contains(text, "master_link_status:up") {
				return errors.New("the replica has not reached its master")
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("replica at %s: %w", r.Addr(), err)
		}
	}
	return nil
}

// All returns the master and then the replicas.
func (g *ReplicatedRedis) All() []*Redis { return append([]*Redis{g.Master}, g.Replicas...) }

// Close ends all of them for good.
func (g *ReplicatedRedis) Close() error { return closeRedis(g.All()) }

// RedisSentinel is a master with replicas that Sentinels watch over.
type RedisSentinel struct {
	*ReplicatedRedis
	// MasterName is the name by which Sentinels know the master.
	MasterName string
	// Sentinels are servers like others: kill them, pause them.
	Sentinels []*Redis
}

// StartRedisSentinel starts a master, one replica and three Sentinels, which fail over
// when the master was silent for a second. It returns when the Sentinels know the
// replica and each other.
func StartRedisSentinel(ctx context.Context, opts RedisOptions) (*RedisSentinel, error) {
	if opts.TLS {
		return nil, errors.New("servers: Sentinel with TLS is not offered")
	}
	group, err := StartReplicatedRedis(ctx, 1, opts)
	if err != nil {
		return nil, err
	}
	g := &RedisSentinel{ReplicatedRedis: group, MasterName: "locker"}
	for range 3 {
		s, err := startRedis(ctx, RedisOptions{Args: []string{"--sentinel"}}, func(*Redis) []string {
			lines := []string{
				fmt.Sprintf("sentinel monitor %s %s 2", g.MasterName, strings.Replace(g.Master.Addr(), ":", " ", 1)),
				"sentinel down-after-milliseconds " + g.MasterName + " 1000",
				"sentinel failover-timeout " + g.MasterName + " 5000",
			}
			if opts.Password != "" {
				lines = append(lines, "sentinel auth-pass "+g.MasterName+" "+opts.Password)
			}
			return lines
		})
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
		g.Sentinels = append(g.Sentinels, s)
	}
	if err := g.waitMet(ctx); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func (g *RedisSentinel) waitMet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	for _, s := range g.Sentinels {
		err := poll(ctx, func(ctx context.Context) error {
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
		})
		if err != nil {
			return fmt.Errorf("sentinel at %s: %w", s.Addr(), err)
		}
	}
	return nil
}

// SentinelAddrs returns the addresses of the Sentinels.
func (g *RedisSentinel) SentinelAddrs() []string { return redisAddrs(g.Sentinels) }

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

// Close ends the Sentinels and the servers for good.
func (g *RedisSentinel) Close() error {
	return errors.Join(closeRedis(g.Sentinels), g.ReplicatedRedis.Close())
}

func redisAddrs(all []*Redis) []string {
	var addrs []string
	for _, r := range all {
		addrs = append(addrs, r.Addr())
	}
	return addrs
}
