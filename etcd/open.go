package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/openurl"
)

func init() { openurl.Register("etcd", "etcds", "2379", openURL, "prefix") }

// openURL opens etcd://user:password@host:port,host:port.
func openURL(ctx context.Context, s *openurl.Server, opts ...locker.Option) (locker.Locker, error) {
	if err := s.NoPath(); err != nil {
		return nil, err
	}
	if s.Password != "" && s.User == "" {
		return nil, errors.New("a password without a user")
	}
	if prefix, ok := s.Params["prefix"]; ok {
		opts = append(opts, WithPrefix(prefix))
	}
	client, err := dialURL(ctx, s)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backendName, Err: err}
	}
	l, err := New(client, append(opts, locker.WithOnClose(client.Close))...)
	if err != nil {
		_ = client.Close()
	}
	return l, err
}

// loginTimeout is how long a login may take when the context has no end.
const loginTimeout = 10 * time.Second

// dialURL returns a client. With a user it asks the servers whether the password is right, for as long as ctx allows.
func dialURL(ctx context.Context, s *openurl.Server) (*clientv3.Client, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, loginTimeout, fmt.Errorf("no answer to the login within %v", loginTimeout))
		defer cancel()
	}
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end)
	client, err := clientv3.New(clientv3.Config{
		Context: life, Endpoints: s.Addresses, Username: s.User, Password: s.Password, TLS: s.TLS,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if !stop() && err == nil {
		_ = client.Close()
		err = ctx.Err()
	}
	if err != nil {
		end()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, err
	}
	context.AfterFunc(client.Ctx(), end)
	return client, nil
}
