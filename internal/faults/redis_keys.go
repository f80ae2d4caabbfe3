package faults

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed80cd6120/locker/internal/servers"
)

// What is done to the keys of locks on Redis.

// Everything is what a backend of ours offers.
var Everything = Offers{Tokens: true, Lost: true, Late: true, Tidy: true, Shared: true, Permits: true}

func redisServers(kind string, all []*servers.Redis) *Servers { return OnRedis(kind, "*lock:", all) }

// OnRedis returns what a kind of lock stands on whose keys end with the name of the lock,
// after what matches before.
func OnRedis(kind, before string, all []*servers.Redis) *Servers {
	s := &Servers{Redis: all}
	for _, r := range all {
		s.All = append(s.All, r.Server)
		s.Addrs = append(s.Addrs, r.Addr())
	}
	s.Access = Access{Kind: kind, Addrs: s.Addrs, TTL: ttl}
	s.Destroy = func(ctx context.Context, name string) error {
		return s.onKeys(ctx, before+name, func(r *servers.Redis, key string) error { return write(ctx, r, "DEL", key) })
	}
	s.Expire = func(ctx context.Context, name string) error {
		return s.onKeys(ctx, before+name, func(r *servers.Redis, key string) error { return write(ctx, r, "PEXPIRE", key, "1") })
	}
	s.EndSession = func(ctx context.Context, name string, waiters bool) error {
		if !waiters {
			return s.Destroy(ctx, name)
		}
		return s.onQueues(ctx, name, func(r *servers.Redis, key string) error { return write(ctx, r, "DEL", key) })
	}
	s.Waiting = func(ctx context.Context, name string) (most int, err error) {
		err = s.onQueues(ctx, name, func(r *servers.Redis, key string) error {
			n, err := length(ctx, r, key)
			most = max(most, n)
			return err
		})
		return most, err
	}
	s.Litter = func(ctx context.Context, name string) (left []string, err error) {
		err = s.onKeys(ctx, "*"+name+"*", func(r *servers.Redis, key string) error {
			left = append(left, r.Addr()+" "+key)
			return nil
		})
		return left, err
	}
	return s
}

// onKeys does something to every key that matches, on every server.
func (s *Servers) onKeys(ctx context.Context, pattern string, do func(r *servers.Redis, key string) error) error {
	for _, r := range s.Redis {
		v, err := r.Do(ctx, "KEYS", pattern)
		if err != nil {
			return err
		}
		keys, _ := v.([]any)
		for _, key := range keys {
			if err := do(r, fmt.Sprint(key)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Servers) onQueues(ctx context.Context, name string, do func(r *servers.Redis, key string) error) error {
	err := s.onKeys(ctx, "*queue:"+name, do)
	if err == nil {
		err = s.onKeys(ctx, "*wait:"+name, do)
	}
	return err
}

// write sends a command that a replica need not carry out.
func write(ctx context.Context, r *servers.Redis, args ...string) error {
	_, err := r.Do(ctx, args...)
	if err != nil && strings.Contains(err.Error(), "READONLY") {
		return nil
	}
	return err
}

func length(ctx context.Context, r *servers.Redis, key string) (int, error) {
	kind, err := r.Do(ctx, "TYPE", key)
	if err != nil {
		return 0, err
	}
	count := map[any]string{"list": "LLEN", "zset": "ZCARD", "hash": "HLEN", "set": "SCARD"}[kind]
	if count == "" {
		return 0, nil // it has just gone
	}
	n, err := r.Do(ctx, count, key)
	i, _ := n.(int64)
	return int(i), err
}
