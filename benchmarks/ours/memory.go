package ours

import (
	"context"

	"github.com/seed80cd6120/locker"
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
		Traits: contender.Traits{Waits: true, Renews: true, Fenced: true},
		Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
			l, err := memory.New(locker.WithTTL(cfg.TTL))
			if err != nil {
				return nil, err
			}
			return client{Locker: l}, nil
		},
	}
}
