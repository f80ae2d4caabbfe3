// Package lockhttp runs an HTTP handler only while the request's name is held: two requests for one order, on any
// replica, are not handled at the same time.
//
//	orders := lockhttp.Middleware{
//		Locker: l,
//		Name:   func(r *http.Request) string { return "orders/" + r.PathValue("id") },
//	}
//	mux.Handle("POST /orders/{id}", orders.Wrap(handler))
//
// The context of the request ends when the lock is lost, and [FromContext] has the lock with its fencing token.
//
// # What it cannot do
//
// It does not take back what the handler has done or sent when the lock is lost. A handler has to stop when its context
// ends, answer with an error then, and give the token to the store that it writes to. Nor is it an idempotency
// key: a request that comes again after the first was answered is handled again.
package lockhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/seed80cd6120/locker"
)

// answer is how long a request that does not wait for its name waits for the server of the locks.
const answer = 5 * time.Second

// Middleware takes a name for each request. Locker and Name must be set.
type Middleware struct {
	Locker locker.Locker

	// Name returns the name of the lock that a request needs, or "" if it needs none. [http.Request.PathValue] is set
	// if the middleware wraps the handler of a pattern, not the whole ServeMux.
	Name func(r *http.Request) string

	// Wait is how long a request waits for its name. With 0 it is refused at once if the name is taken.
	Wait time.Duration

	// Status is what a request gets that is refused because its name is taken: 423 (Locked) without it; 409
	// (Conflict) is the other usual one.
	Status int

	// RetryAfter is sent with such a refusal and with 503, rounded up to whole seconds; one second without it.
	RetryAfter time.Duration

	// Options are those of every acquisition, for example locker.Shared for requests that only read.
	Options []locker.AcquireOption

	// Refuse writes the body of a refusal, if it is not nil; Retry-After is set then. It calls w.WriteHeader with
	// status. err is for logs and may name servers. Without Refuse the body is the text of the status.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// Wrap returns a handler that runs next while it holds the name of the request, and refuses the request otherwise:
//
//   - with Status if the name is taken;
//   - with 503 (Service Unavailable) if the locks cannot be reached, or if the request has waited in vain: then the two
//     cannot be told apart;
//   - with 400 (Bad Request) if the name is longer than locker.MaxName;
//   - with 500 (Internal Server Error) if the Locker cannot honour Options.
func (m Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := m.Name(r)
		if name == "" {
			next.ServeHTTP(w, r)
			return
		}
		lock, err := m.acquire(r.Context(), name)
		if err != nil {
			m.refuse(w, r, err)
			return
		}
		// The client may be gone, which ends the request's context; the name is to be free all the same.
		defer func() { _ = lock.Release(context.WithoutCancel(r.Context())) }()
		ctx := context.WithValue(r.Context(), contextKey{}, lock)
		copied := r.WithContext(lock.Within(ctx))
		defer func() { r.MultipartForm = copied.MultipartForm }() // net/http removes the files of its own request only
		next.ServeHTTP(w, copied)
	})
}

func (m Middleware) acquire(ctx context.Context, name string) (*locker.Lock, error) {
	acquire, limit := m.Locker.TryAcquire, answer
	if m.Wait > 0 {
		acquire, limit = m.Locker.Acquire, m.Wait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return acquire(ctx, name, m.Options...)
}

func (m Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, again := http.StatusServiceUnavailable, true
	switch {
	case errors.Is(err, locker.ErrNotAcquired):
		status = m.Status
		if status == 0 {
			status = http.StatusLocked
		}
	case errors.Is(err, locker.ErrInvalidName):
		status, again = http.StatusBadRequest, false
	case errors.Is(err, locker.ErrInvalidOption), errors.Is(err, locker.ErrUnsupported):
		status, again = http.StatusInternalServerError, false
	}
	if again {
		seconds := max(1, int((m.RetryAfter+time.Second-1)/time.Second))
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	if m.Refuse != nil {
		m.Refuse(w, r, status, err)
		return
	}
	http.Error(w, http.StatusText(status), status)
}

type contextKey struct{}

// FromContext returns the lock that the middleware holds for the request whose context is ctx, or nil if there is none. It is
// released when the handler returns.
func FromContext(ctx context.Context) *locker.Lock {
	lock, _ := ctx.Value(contextKey{}).(*locker.Lock)
	return lock
}
