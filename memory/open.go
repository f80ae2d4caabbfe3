package memory

import (
	"context"
	"errors"
	"sync"

	"github.com/seed80cd6120/locker"
)

func init() { locker.Register("memory", openURL) }

// stores are those that URLs name. They stay: tokens must go on rising.
var (
	storesMu sync.Mutex
	stores   = make(map[string]*Store)
)

// openURL makes a Locker with a store of its own for memory://, and one on the store of that name,
// the same in the whole process, for memory://name.
func openURL(_ context.Context, u *locker.URL, opts ...locker.Option) (locker.Locker, error) {
	switch {
	case len(u.Hosts) > 1 || u.Path != "" || u.User != "" || u.Password != "":
		return nil, errors.New("want memory:// or memory://name")
	case len(u.Hosts) == 0:
		return New(opts...)
	}
	storesMu.Lock()
	defer storesMu.Unlock()
	s := stores[u.Hosts[0]]
	if s == nil {
		s = NewStore()
		stores[u.Hosts[0]] = s
	}
	return s.Locker(opts...)
}
