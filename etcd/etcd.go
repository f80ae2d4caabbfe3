package etcd

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed80cd6120/locker"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// DefaultPrefix is what all keys begin with unless WithPrefix says otherwise.
const DefaultPrefix = "locker/"

type settings struct{ prefix string }

// WithPrefix sets what all keys begin with, for several independent groups of locks in
// one cluster. A "/" is added if it does not end with one. Lockers exclude each
// other only if their prefixes are equal. A prefix is not empty and holds no "#".
func WithPrefix(prefix string) locker.Option {
	return locker.BackendOption(func(s *settings) error {
		if prefix == "" || strings.Contains(prefix, mark) {
			return fmt.Errorf("%w: prefix %q is empty or holds %q", locker.ErrInvalidOption, prefix, mark)
		}
		s.prefix = strings.TrimSuffix(prefix, "/") + "/"
		return nil
	})
}

// New returns a Locker on the cluster that client is connected to. It sends
// nothing: the first request is that of the first acquisition.
func New(client *clientv3.Client, opts ...locker.Option) (locker.Locker, error) {
	b, cfg, err := open(client, opts)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backendName, Err: err}
	}
	return locker.New(b, cfg)
}

func open(client *clientv3.Client, opts []locker.Option) (*backend, *locker.Config, error) {
	s := settings{prefix: DefaultPrefix}
	cfg, err := locker.NewConfig(backendName, &s, opts...)
	switch {
	case err != nil:
		return nil, nil, err
	case client == nil || client.KV == nil || client.Lease == nil || client.Watcher == nil || client.ActiveConnection() == nil:
		return nil, nil, fmt.Errorf("%w: nil client", locker.ErrInvalidOption)
	case client.Ctx().Err() != nil:
		return nil, nil, fmt.Errorf("%w: closed client: %w", locker.ErrInvalidOption, context.Cause(client.Ctx()))
	}
	return newBackend(client, cfg, s.prefix), cfg, nil
}
