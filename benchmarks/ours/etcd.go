package ours

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/etcd"
)

func etcdContender(nodes int) contender.Contender {
	return contender.Contender{
		Name:   fmt.Sprintf("etcd-%d", nodes),
		Family: "etcd",
		Role:   contender.Ours,
		Setup:  contender.Setup{Service: contender.Etcd, Nodes: nodes},
		Note:   "with its default options",
		Traits: traits(2 * time.Second),
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			conn, err := dial.Etcd(ctx, cfg.Addrs)
			if err != nil {
				return nil, err
			}
			l, err := etcd.New(conn, options(cfg)...)
			if err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return client{l, conn.Close}, nil
		},
	}
}
