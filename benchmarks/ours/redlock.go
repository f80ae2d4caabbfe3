package ours

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/redlock"
)

func redlockContender(name string, v contender.Variant, fenced bool) contender.Contender {
	note := "with its default options"
	var opts []locker.Option
	if !fenced {
		note = "WithoutFencing"
		opts = append(opts, redlock.WithoutFencing())
	}
	t := traits(0)
	t.Fenced, t.Permits = fenced, false
	return contender.Contender{
		Name:   name,
		Family: "redlock",
		Role:   contender.Ours,
		Setup:  contender.Setup{Service: contender.Redis, Nodes: 5, Variant: v},
		Note:   note,
		Aside:  !fenced,
		Traits: t,
		Open: func(_ context.Context, cfg contender.Config) (contender.Client, error) {
			var conns []goredis.UniversalClient
			for _, addr := range cfg.Addrs {
				conns = append(conns, dial.Redis(addr))
			}
			after := func() error {
				var errs []error
				for _, c := range conns {
					errs = append(errs, c.Close())
				}
				return errors.Join(errs...)
			}
			l, err := redlock.New(conns, append(options(cfg), opts...)...)
			if err != nil {
				return nil, errors.Join(err, after())
			}
			return client{l, after}, nil
		},
	}
}
