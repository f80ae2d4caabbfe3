package ours

import (
	"context"
	"errors"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/redis"
)

func redisContender() contender.Contender {
	return contender.Contender{
		Name:   "redis",
		Family: "redis",
		Role:   contender.Ours,
		Setup:  contender.Setup{Service: contender.Redis, Nodes: 1},
		Note:   "with its default options",
		Traits: traits(0),
		Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
			conn := dial.Redis(cfg.Addrs[0])
			l, err := redis.New(conn, options(cfg)...)
			if err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return client{l, conn.Close}, nil
		},
	}
}
