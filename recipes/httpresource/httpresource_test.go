package httpresource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/recipes/internal/late"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is what outlives the server: the resources and their tokens.
type disk struct {
	mu     sync.Mutex
	values map[string]string
	tokens map[string]int64
	full   error
}

func newDisk() *disk { return &disk{values: make(map[string]string), tokens: make(map[string]int64)} }

func (d *disk) load(_ context.Context, resource string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tokens[resource], nil
}

func (d *disk) store(_ context.Context, resource string, token int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full == nil {
		d.tokens[resource] = token
	}
	return d.full
}

func (d *disk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, d.values[r.URL.Path])
	default:
		d.values[r.URL.Path] = string(body)
	}
}

// fenced returns the handler of a server that has just been started.
func fenced(d *disk, next http.Handler) http.Handler { return d.fence().Wrap(next) }

func (d *disk) fence() *Fence {
	return &Fence{
		Resource: func(r *http.Request) string {
			if r.Method == http.MethodGet {
				return ""
			}
			return r.URL.Path
		},
		Load:  d.load,
		Store: d.store,
	}
}

var errLate = errors.New("late")

func put(ctx context.Context, url, token, value string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(value))
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set(Header, token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// Each request goes to a server that has been started anew: the tokens are not forgotten.
func TestFence(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	d := newDisk()
	serve := func(do func(url string) error) error {
		s := httptest.NewServer(fenced(d, d))
		defer s.Close()
		return do(s.URL + "/orders/42")
	}
	late.Test(t, func(ctx context.Context, token int64, value string) error {
		return serve(func(url string) error {
			switch status, err := put(ctx, url, strconv.FormatInt(token, 10), value); {
			case err != nil:
				return err
			case status == http.StatusPreconditionFailed:
				return errLate
			case status != http.StatusOK:
				return fmt.Errorf("status %d", status)
			}
			return nil
		})
	}, func(ctx context.Context) (value string, err error) {
		err = serve(func(url string) error {
			response, err := http.Get(url)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			value = string(body)
			return err
		})
		return value, err
	}, errLate)
}

func TestRefusals(t *testing.T) {
	d := newDisk()
	h := fenced(d, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("handled") }))
	send := func(token string) int {
		r := httptest.NewRequest(http.MethodPut, "/orders/42", nil)
		if token != "" {
			r.Header.Set(Header, token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for token, status := range map[string]int{"": 428, "x": 400, "0": 400, "-1": 400, "99999999999999999999": 400} {
		if got := send(token); got != status {
			t.Errorf("token %q: %d, want %d", token, got, status)
		}
	}
	d.full = errors.New("disk full")
	if got := send("1"); got != 500 {
		t.Errorf("a token that cannot be kept: %d", got)
	}
}

// Who handles one resource may write another through the same Fence. Who waits for a turn gives up with its context.
func TestNested(t *testing.T) {
	var h http.Handler
	send := func(ctx context.Context, path string) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodPut, path, nil)
		r.Header.Set(Header, "1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	h = fenced(newDisk(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if other, ok := strings.CutPrefix(r.URL.Path, "/outer"); ok {
			w.WriteHeader(send(r.Context(), other))
		}
		if r.URL.Path == "/itself" {
			ctx, cancel := context.WithCancel(r.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			w.WriteHeader(send(ctx, "/itself"))
		}
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 1000 {
			if status := send(t.Context(), fmt.Sprintf("/outer/%d", i)); status != 200 {
				t.Errorf("%d: %d", i, status)
			}
		}
		if status := send(t.Context(), "/itself"); status != 503 {
			t.Errorf("waiting for itself: %d", status)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("a request waits for itself")
	}
}

// No write comes between the comparison of another and its handler, also if that goes to another handler of the Fence.
func TestOneAtATime(t *testing.T) {
	d := newDisk()
	lost, held := late.Holders(t)
	writing, done := make(chan struct{}), make(chan struct{})
	fence := d.fence()
	slow := fence.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(writing)
		select {
		case <-done:
			t.Error("a later request was handled while an earlier one was")
		case <-time.After(50 * time.Millisecond): // time enough for one that is not held up
		}
		d.ServeHTTP(w, r)
	}))
	send := func(h http.Handler, token int64, value string) int {
		r := httptest.NewRequest(http.MethodPut, "/orders/42", strings.NewReader(value))
		r.Header.Set(Header, strconv.FormatInt(token, 10))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	go func() {
		defer close(done)
		<-writing
		if status := send(fence.Wrap(d), held.Token(), "second"); status != 200 {
			t.Errorf("the later request: %d", status)
		}
	}()
	if status := send(slow, lost.Token(), "first"); status != 200 {
		t.Error(status)
	}
	if <-done; d.values["/orders/42"] != "second" {
		t.Errorf("%q", d.values["/orders/42"])
	}
}
