package locker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// An Opener makes the Locker that u describes, with the client it needs. It passes opts on to the
// constructor of its backend, and has the client closed by WithOnClose. What cannot be honoured it
// returns as an error that quotes nothing of the URL but names of parameters: a value may be a secret.
type Opener func(ctx context.Context, u *URL, opts ...Option) (Locker, error)

// registered is what Register was told of a scheme.
type registered struct {
	open   Opener
	params []string
}

var (
	openersMu sync.RWMutex
	openers   = make(map[string]registered)
)

// packages names the package that registers a scheme of this module, for those who forgot to import it.
var packages = map[string]string{
	"memory": "memory", "file": "file",
	"redis": "redis", "rediss": "redis", "redis+sentinel": "redis", "rediss+sentinel": "redis",
	"redis+cluster": "redis", "rediss+cluster": "redis",
	"redlock": "redlock", "redlocks": "redlock",
	"zookeeper": "zookeeper", "zookeepers": "zookeeper",
	"etcd": "etcd", "etcds": "etcd",
	"postgres": "postgres", "postgress": "postgres", "postgresql": "postgres", "postgresqls": "postgres",
	"mysql": "mysql", "mysqls": "mysql",
}

// commonParams are the parameters of every URL.
var commonParams = map[string]func(value string) (Option, error){
	"ttl":       durationParam(WithTTL),
	"hand-over": durationParam(WithHandOver),
	"owner":     func(value string) (Option, error) { return WithOwner(value), nil },
}

func durationParam(option func(time.Duration) Option) func(string) (Option, error) {
	return func(value string) (Option, error) {
		d, err := time.ParseDuration(value)
		if err != nil {
			return nil, errors.New("want a duration such as 15s")
		}
		return option(d), nil
	}
}

// Register has Open call open for the URLs of scheme, which is lower-case. params are the parameters
// that such a URL may have beside those of every URL: ttl, hand-over and owner. It is for the authors
// of backends, who call it from init, and panics when the scheme is registered already.
func Register(scheme string, open Opener, params ...string) {
	openersMu.Lock()
	defer openersMu.Unlock()
	if _, twice := openers[scheme]; twice || open == nil || !validScheme(scheme) {
		panic(fmt.Sprintf("locker: Register(%q): a scheme that is not valid or registered already, or a nil opener", scheme))
	}
	openers[scheme] = registered{open, slices.Sorted(slices.Values(slices.Concat(params, slices.Collect(maps.Keys(commonParams)))))}
}

// Open returns the Locker that rawURL describes, with a client of its own, which Close closes:
//
//	l, err := locker.Open(ctx, "redis://localhost:6379/0?ttl=10s")
//	l, err := locker.Open(ctx, "zookeeper://zk1,zk2,zk3/app?owner=billing")
//
// The package of the backend has to be imported, if only by its name, as in
// import _ "github.com/seed80cd6120/locker/redis"; package all imports every backend but postgres and
// mysql. The URLs of each are listed in docs/urls.md. Parameters that are not known are refused. opts count more than the
// parameters ttl, hand-over and owner.
//
// Open sends no more than the constructor of the backend: ZooKeeper opens a session, etcd checks
// a password, and both give up when ctx ends; file makes its directory; the others do no I/O.
//
// No error of Open quotes a user, a password or the value of a parameter.
func Open(ctx context.Context, rawURL string, opts ...Option) (Locker, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, InvalidOption("url", err)
	}
	openersMu.RLock()
	r, ok := openers[u.Scheme]
	openersMu.RUnlock()
	if !ok {
		return nil, InvalidOption("url", errNoOpener(u.Scheme))
	}
	common, err := r.options(u)
	if err != nil {
		return nil, InvalidOption(u.Scheme, err)
	}
	if ctx.Err() != nil {
		return nil, &Error{Op: "open", Backend: u.Scheme, Err: ended(ctx, nil)}
	}
	l, err := r.open(ctx, u, append(common, opts...)...)
	switch {
	case err == nil:
		return l, nil
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return nil, &Error{Op: "open", Backend: u.Scheme, Err: ended(ctx, err)}
	}
	return nil, InvalidOption(u.Scheme, err)
}

// options takes the parameters of every URL from u and returns them as options. Those that
// the scheme does not know are refused.
func (r registered) options(u *URL) ([]Option, error) {
	var opts []Option
	for _, name := range slices.Sorted(maps.Keys(u.Params)) {
		if !slices.Contains(r.params, name) {
			return nil, fmt.Errorf("unknown parameter %q, those of %s:// are %s", name, u.Scheme, strings.Join(r.params, ", "))
		}
		if parse := commonParams[name]; parse != nil {
			opt, err := parse(u.Params[name])
			if err != nil {
				return nil, fmt.Errorf("parameter %s: %w", name, err)
			}
			opts = append(opts, opt)
			delete(u.Params, name)
		}
	}
	return opts, nil
}

// errNoOpener says what to do about a scheme that nobody has registered.
func errNoOpener(scheme string) error {
	if home := packages[scheme]; home != "" {
		return fmt.Errorf("scheme %s: forgotten import _ %q", scheme, "github.com/seed80cd6120/locker/"+home)
	}
	openersMu.RLock()
	defer openersMu.RUnlock()
	known := slices.Sorted(maps.Keys(openers))
	return fmt.Errorf("unknown scheme %s, registered are: %s", scheme, strings.Join(known, ", "))
}
