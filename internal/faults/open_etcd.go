package faults

import (
	"context"

	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/etcd"
)

func init() {
	Register("etcd", func(_ context.Context, a Access) (conformance.Client, error) {
		c, err := EtcdClient(a)
		if err != nil {
			return nil, err
		}
		l, err := etcd.New(c, a.options()...)
		return of(l, err, c.Close)
	})
}
