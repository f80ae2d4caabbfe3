// Package httpresource protects a resource behind HTTP from clients whose lock is gone.
//
// Where does the old token come from? The server keeps it with the resource, so that a restart of the server
// does not forget it. The client sends its own with every request that writes:
//
//	request.Header.Set("Fencing-Token", strconv.FormatInt(lock.Token(), 10))
//
// and [Fence.Wrap] refuses a request with 412 (Precondition Failed) if the resource has seen a greater one, 428 (Precondition
// Required) if it has none, and 400 (Bad Request) if it is not a number. A client takes 412 as the news that its lock is
// gone; trying again is no use.
//
// The comparison holds only if no other write comes between it and the handler's own, so a Fence handles one request for a
// resource at a time, and one process has to serve all writes of a resource. Where several do, or where the data
// is in a database, the handler is to compare in its transaction instead: see package sqlrow.
package httpresource

import (
	"context"
	"net/http"
	"strconv"
	"sync"
)

// Header carries the token of the client's lock, in decimal.
const Header = "Fencing-Token"

// Fence keeps late clients from resources. All fields must be set. It must not be copied after the first call of Wrap.
type Fence struct {
	// Resource returns the name of the resource that a request writes, or "" for requests that write none.
	Resource func(r *http.Request) string

	// Load returns the greatest token that the resource has seen, 0 if none.
	Load func(ctx context.Context, resource string) (int64, error)

	// Store keeps a greater one for good. It is called before the handler, so that no failure of the handler lets an
	// earlier client in again.
	Store func(ctx context.Context, resource string, token int64) error

	turns sync.Map // of the resources that are being written, each with a channel that is closed at the end
}

// Wrap returns a handler that calls next for requests which are not late, one at a time for each resource, whichever of
// the Fence's handlers they go to. A request whose context ends while it waits for its turn gets 503 (Service Unavailable).
func (f *Fence) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource := f.Resource(r)
		if resource == "" {
			next.ServeHTTP(w, r)
			return
		}
		turn := make(chan struct{})
		for {
			other, busy := f.turns.LoadOrStore(resource, turn)
			if !busy {
				break
			}
			select {
			case <-other.(chan struct{}):
			case <-r.Context().Done():
				http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
				return
			}
		}
		defer close(turn)
		defer f.turns.Delete(resource)
		if status := f.check(r, resource); status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check compares the token of a request and keeps it if it is the greatest. It returns the status of a refusal, or 200.
func (f *Fence) check(r *http.Request, resource string) int {
	text := r.Header.Get(Header)
	if text == "" {
		return http.StatusPreconditionRequired
	}
	token, err := strconv.ParseInt(text, 10, 64)
	if err != nil || token <= 0 {
		return http.StatusBadRequest
	}
	greatest, err := f.Load(r.Context(), resource)
	if err == nil && token > greatest {
		err = f.Store(r.Context(), resource, token)
	}
	switch {
	case err != nil:
		return http.StatusInternalServerError
	case token < greatest:
		return http.StatusPreconditionFailed
	}
	return http.StatusOK
}
