package ours

import (
	"context"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/memory"
)

func memoryContender() contender.Contender {
	return contender.Contender{
		Name:   "memory",
		Family: "memory",
		Role:   contender.Ours,
		Setup:  contender.Setup{Service: contender.Memory},
		Note:   "one process, no server",
		Traits: traits(0),
		Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
			l, err := memory.New(options(cfg)...)
			if err != nil {
				return nil, err
			}
			return client{Locker: l}, nil
		},
	}
}
