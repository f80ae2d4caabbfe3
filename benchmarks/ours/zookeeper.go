package ours

import (
	"context"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/zookeeper"
)

func zooKeeperContender(nodes int, v contender.Variant) contender.Contender {
	setup := contender.Setup{Service: contender.ZooKeeper, Nodes: nodes, Variant: v}
	return contender.Contender{
		Name:   setup.String(),
		Family: "zookeeper",
		Role:   contender.Ours,
		Setup:  setup,
		Note:   "with its default options",
		Traits: traits(time.Second),
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			l, err := zookeeper.Connect(ctx, cfg.Addrs, options(cfg)...)
			if err != nil {
				return nil, err
			}
			return client{Locker: l}, nil
		},
	}
}
