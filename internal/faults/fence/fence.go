// Package fence is the resource that a lock is meant to protect: it remembers the
// highest token it has seen for each name and refuses lower ones. It is told who comes
// with a token, so that it also notices a token that was given twice, and it keeps a
// value that its users read and write back, so that an update that got lost shows.
//
// A [Resource] is used by the process that made it; [Resource.Serve] lets others of the
// machine use it over a socket, with [Dial].
package fence

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale is returned to a holder that came with a token lower than one seen before.
// That is the fence at work, not a violation.
var ErrStale = errors.New("fence: a higher token has been seen")

// Resource is the resource. Its methods may be called from any number of goroutines.
type Resource struct {
	mu         sync.Mutex
	names      map[string]*value
	violations []string
}

// value is what is protected under one name.
type value struct {
	highest int64
	holder  string // who came with the highest token
	n       int64
}

// New returns an empty resource.
func New() *Resource { return &Resource{names: make(map[string]*value)} }

// Open begins the work of holder on name and returns the value. From here on lower
// tokens are refused.
func (r *Resource) Open(name string, token int64, holder string) (n int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.enter(name, token, holder)
	if err != nil {
		return 0, err
	}
	return v.n, nil
}

// Write ends the work of holder on name: the value that Open returned becomes one more.
func (r *Resource) Write(name string, token int64, holder string, was int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, err := r.enter(name, token, holder)
	if err != nil {
		return err
	}
	if v.n != was {
		r.violate("%q: %s with token %d writes over %d what it had read as %d: an update is lost", name, holder, token, v.n, was)
	}
	v.n = was + 1
	return nil
}

func (r *Resource) enter(name string, token int64, holder string) (*value, error) {
	v := r.names[name]
	if v == nil {
		v = &value{}
		r.names[name] = v
	}
	switch {
	case token < v.highest:
		return nil, fmt.Errorf("%w: %q: token %d of %s, seen %d of %s", ErrStale, name, token, holder, v.highest, v.holder)
	case token == v.highest && v.holder != "" && holder != v.holder:
		r.violate("%q: token %d was given to %s and to %s", name, token, v.holder, holder)
	}
	v.highest, v.holder = token, holder
	return v, nil
}

func (r *Resource) violate(format string, args ...any) {
	r.violations = append(r.violations, fmt.Sprintf(format, args...))
}

// Violations returns a line for everything that no correct lock with tokens can cause.
func (r *Resource) Violations() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.violations...)
}

// Writes returns how many writes of name were accepted, if there are no violations.
func (r *Resource) Writes(name string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.names[name]; v != nil {
		return v.n
	}
	return 0
}
