package redlock

import (
	"context"
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/openurl"
)

func init() {
	openurl.Register("redlock", "redlocks", "6379", openURL, "prefix", "node-timeout", "fencing")
}

// openURL opens redlock://host:port,host:port,host:port/db. User, password and database are the same for all nodes.
func openURL(_ context.Context, s *openurl.Server, opts ...locker.Option) (l locker.Locker, err error) {
	db, err := openurl.Number("path", strings.TrimPrefix(s.Path, "/"), 1<<16-1)
	if err != nil {
		return nil, err
	}
	if prefix, ok := s.Params["prefix"]; ok {
		opts = append(opts, WithPrefix(prefix))
	}
	if timeout, ok, err := s.Duration("node-timeout"); err != nil {
		return nil, err
	} else if ok {
		opts = append(opts, WithNodeTimeout(timeout))
	}
	switch fencing, ok := s.Params["fencing"]; {
	case fencing == "false":
		opts = append(opts, WithoutFencing())
	case ok && fencing != "true":
		return nil, errors.New("parameter fencing: want true or false")
	}
	clients := make([]goredis.UniversalClient, len(s.Addresses))
	for i, address := range s.Addresses {
		clients[i] = goredis.NewClient(&goredis.Options{
			Addr: address, Username: s.User, Password: s.Password, DB: db, TLSConfig: s.TLS,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		opts = append(opts, locker.WithOnClose(clients[i].Close))
	}
	defer func() {
		if err != nil {
			for _, client := range clients {
				_ = client.Close()
			}
		}
	}()
	return New(clients, opts...)
}
