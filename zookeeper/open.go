package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/openurl"
)

func init() { openurl.Register("zookeeper", "zookeepers", "2181", openURL, "acl") }

// openURL opens zookeeper://user:password@host:port,host:port/chroot.
func openURL(ctx context.Context, s *openurl.Server, opts ...locker.Option) (locker.Locker, error) {
	if s.TLS != nil {
		opts = append(opts, WithTLS(s.TLS))
	}
	if s.Path != "" && s.Path != "/" {
		opts = append(opts, WithChroot(s.Path))
	}
	if s.Password != "" {
		if s.User == "" {
			return nil, errors.New("a password without a user")
		}
		opts = append(opts, WithDigest(s.User, s.Password))
	}
	switch acl, ok := s.Params["acl"]; {
	case acl == "auth" && s.User == "":
		return nil, errors.New("parameter acl: auth wants a user and a password")
	case acl == "auth":
		opts = append(opts, WithACL(zk.AuthACL(zk.PermAll)...))
	case ok && acl != "world":
		return nil, errors.New("parameter acl: want world (anyone may do everything, the default) or auth (only this user)")
	}
	return Connect(ctx, s.Addresses, opts...)
}
