package file

import (
	"context"
	"errors"

	"github.com/seed80cd6120/locker"
)

func init() { locker.Register("file", openURL) }

// openURL opens file:///directory, and file:// for the directory of this user.
func openURL(_ context.Context, u *locker.URL, opts ...locker.Option) (locker.Locker, error) {
	if len(u.Hosts) > 0 || u.User != "" || u.Password != "" {
		return nil, errors.New("a host: want file:///directory with three slashes")
	}
	dir := u.Path
	if dir == "" {
		var err error
		if dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	return New(dir, opts...)
}
