package ours

import (
	"context"
	"errors"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/dial"
	"github.com/seed80cd6120/locker/mysql"
)

func mysqlContender() contender.Contender {
	return contender.Contender{
		Name:   "mysql",
		Family: "mysql",
		Role:   contender.Ours,
		Setup:  contender.Setup{Service: contender.MariaDB, Nodes: 1},
		Note:   "with its default options, on MariaDB",
		Traits: traits(time.Second),
		Open: func(ctx context.Context, cfg contender.Config) (contender.Client, error) {
			db, err := dial.MariaDB(cfg.Addrs[0], connections)
			if err != nil {
				return nil, err
			}
			l, err := mysql.New(db, options(cfg)...)
			if err != nil {
				return nil, errors.Join(err, db.Close())
			}
			return client{l, db.Close}, nil
		},
	}
}
