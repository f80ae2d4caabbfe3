package exhibits

import (
	"context"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// noLock lets everybody in at once.
func noLock() contender.Contender {
	return contender.Contender{
		Name:   "no-lock",
		Family: "no-lock",
		Role:   contender.Exhibit,
		Setup:  contender.Setup{Service: contender.Memory},
		Note:   "everybody gets it at once",
		Open: func(context.Context, contender.Config) (contender.Client, error) {
			return nobody{}, nil
		},
	}
}

type nobody struct{}

func (nobody) Acquire(context.Context, string) (contender.Held, error) { return nobody{}, nil }
func (nobody) Token() int64                                            { return 0 }
func (nobody) Release(context.Context) error                           { return nil }
func (nobody) Close() error                                            { return nil }
