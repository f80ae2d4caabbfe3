package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/openurl"
)

func init() { openurl.Register("etcd", "etcds", "2379", openURL, "prefix") }

const (
	// loginTimeout is how long a login may take when the context has no end.
	loginTimeout = 10 * time.Second
	// probeInterval and probeTimeout are after what silence a connection is probed, and for how
	// long an answer is awaited.
	probeInterval = 10 * time.Second
	probeTimeout  = 5 * time.Second
)

// openURL opens etcd://user:password@host:port,host:port.
func openURL(ctx context.Context, s *openurl.Server, opts ...locker.Option) (l locker.Locker, err error) {
	if err := s.NoPath(); err != nil {
		return nil, err
	}
	if prefix, ok := s.Params["prefix"]; ok {
		if prefix == "" || strings.Contains(prefix, "#") {
			return nil, errors.New(`parameter prefix: want at least a byte, and no "#"`)
		}
		opts = append(opts, WithPrefix(prefix))
	}
	if s.Password != "" && s.User == "" {
		return nil, errors.New("a password without a user")
	}
	client, closeClient, err := dialURL(ctx, s)
	if err != nil {
		return nil, &locker.Error{Op: "open", Backend: backendName, Err: err}
	}
	l, err = New(client, append(opts, locker.WithOnClose(closeClient))...)
	if err != nil {
		_ = closeClient()
	}
	return l, err
}

// dialURL returns a client and what closes it. With a user it asks the servers whether the
// password is right, for as long as ctx allows.
func dialURL(ctx context.Context, s *openurl.Server) (*clientv3.Client, func() error, error) {
	scheme := "http://"
	if s.TLS != nil {
		scheme = "https://"
	}
	endpoints := make([]string, len(s.Addresses))
	for i, address := range s.Addresses {
		endpoints[i] = scheme + address
	}
	login, over := ctx, func() {}
	if _, bounded := ctx.Deadline(); !bounded {
		login, over = context.WithTimeout(ctx, loginTimeout)
	}
	defer over()
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(login, end)
	client, err := clientv3.New(clientv3.Config{
		Context: life, Endpoints: endpoints, Username: s.User, Password: s.Password, TLS: s.TLS,
		DialKeepAliveTime: probeInterval, DialKeepAliveTimeout: probeTimeout, Logger: zap.NewNop(),
	})
	if !stop() && err == nil {
		_ = client.Close()
		err = login.Err()
	}
	if err != nil {
		end()
		if login.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no server has answered the login within %v: %w", loginTimeout, err)
		}
		return nil, nil, err
	}
	return client, func() error { defer end(); return client.Close() }, nil
}
