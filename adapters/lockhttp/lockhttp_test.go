package lockhttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/adapters/internal/replica"
	"github.com/seed80cd6120/locker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// path is the name of a request's lock.
func path(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

// lockers returns two Lockers of one store, as two replicas have them.
func lockers(t *testing.T) (a, b locker.Locker, store *memory.Store) {
	t.Helper()
	store = memory.NewStore()
	return replica.New(t, store), replica.New(t, store), store
}

func request(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", path, nil))
	return w
}

func TestTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		a, b, _ := lockers(t)
		ran := false
		next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true })
		for _, c := range []struct {
			m                Middleware
			status           int
			retryAfter, body string
		}{
			{Middleware{}, 423, "1", "Locked\n"},
			{Middleware{Status: 409, RetryAfter: 1500 * time.Millisecond}, 409, "2", "Conflict\n"},
			{Middleware{Refuse: func(w http.ResponseWriter, _ *http.Request, status int, err error) {
				w.WriteHeader(status)
				if errors.Is(err, locker.ErrNotAcquired) {
					_, _ = io.WriteString(w, `{"busy":true}`)
				}
			}}, 423, "1", `{"busy":true}`},
			{Middleware{Wait: time.Minute}, 503, "1", "Service Unavailable\n"},
		} {
			lock, err := b.Acquire(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			c.m.Locker, c.m.Name = a, path
			begun := time.Now()
			w := request(ctx, c.m.Wrap(next), "/x")
			if took := time.Since(begun); took != c.m.Wait {
				t.Errorf("refused after %v, want %v", took, c.m.Wait)
			}
			if w.Code != c.status || w.Header().Get("Retry-After") != c.retryAfter || w.Body.String() != c.body || ran {
				t.Errorf("%d %v %q, ran: %v; want %d, after %s, %q", w.Code, w.Header(), w.Body, ran, c.status, c.retryAfter, c.body)
			}
			if err := lock.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

// A request that waits is handled as soon as the name is free.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		a, b, _ := lockers(t)
		lock, err := b.Acquire(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Second, func() { _ = lock.Release(ctx) })
		begun := time.Now()
		w := request(ctx, Middleware{Locker: a, Name: path, Wait: time.Minute}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if FromContext(r.Context()).Token() <= lock.Token() {
				t.Error("the token has not risen")
			}
			w.WriteHeader(http.StatusAccepted)
		})), "/x")
		if took := time.Since(begun); w.Code != http.StatusAccepted || took != 10*time.Second {
			t.Errorf("%d after %v", w.Code, took)
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		a, _, store := lockers(t)
		next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("handled") })
		m := Middleware{Locker: a, Name: path}
		if w := request(ctx, m.Wrap(next), "/"+strings.Repeat("x", locker.MaxName+1)); w.Code != 400 || w.Header().Get("Retry-After") != "" {
			t.Errorf("long name: %d %v", w.Code, w.Header())
		}
		impossible := m
		impossible.Options = []locker.AcquireOption{locker.Permits(2, 1)}
		if w := request(ctx, impossible.Wrap(next), "/x"); w.Code != 500 || w.Header().Get("Retry-After") != "" {
			t.Errorf("option that cannot be: %d %v", w.Code, w.Header())
		}
		store.Fail(errors.New("secret address"))
		w := request(ctx, m.Wrap(next), "/x")
		if w.Code != 503 || w.Header().Get("Retry-After") != "1" || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("outage: %d %v %q", w.Code, w.Header(), w.Body)
		}
		store.Heal()
	})
}

// A server of the locks that does not answer holds up no request for longer than the limit.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, link := replica.Remote(t, memory.NewStore())
		link.Freeze()
		begun := time.Now()
		w := request(t.Context(), Middleware{Locker: l, Name: path}.Wrap(http.NotFoundHandler()), "/x")
		if took := time.Since(begun); w.Code != 503 || took > answer {
			t.Errorf("%d after %v", w.Code, took)
		}
		link.Heal()
	})
}

// A request without a name needs no lock.
func TestNoName(t *testing.T) {
	a, _, store := lockers(t)
	store.Fail(nil)
	defer store.Heal()
	w := request(t.Context(), Middleware{Locker: a, Name: path}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if FromContext(r.Context()) != nil {
			t.Error("there is a lock")
		}
	})), "/")
	if w.Code != 200 {
		t.Error(w.Code)
	}
}

// The context of the request ends when the lock is lost, before the next request gets the name.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, link := replica.Remote(t, store)
		b := replica.New(t, store)
		w := request(t.Context(), Middleware{Locker: a, Name: path}.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			link.Freeze()
			successor, err := b.Acquire(context.Background(), "x")
			if err != nil {
				t.Error(err)
				return
			}
			if cause := context.Cause(r.Context()); !errors.Is(cause, locker.ErrLost) {
				t.Errorf("the cause is %v when another has the name", cause)
			}
			if err := successor.Release(context.Background()); err != nil {
				t.Error(err)
			}
			link.Heal()
			http.Error(w, "lost", http.StatusServiceUnavailable)
		})), "/x")
		if w.Code != 503 {
			t.Error(w.Code)
		}
	})
}

// The name is free when the client has gone, and when the handler panics.
func TestReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _ := lockers(t)
		ctx, cancel := context.WithCancel(t.Context())
		request(ctx, Middleware{Locker: a, Name: path}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
			if cause := context.Cause(r.Context()); cause != context.Canceled {
				t.Errorf("the cause is %v", cause)
			}
		})), "/x")
		replica.Free(t, b, "x")

		func() {
			defer func() {
				if recover() != http.ErrAbortHandler {
					t.Error("the panic did not pass")
				}
			}()
			request(t.Context(), Middleware{Locker: a, Name: path}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				panic(http.ErrAbortHandler)
			})), "/x")
		}()
		replica.Free(t, b, "x")
	})
}

// No file of an upload outlives its request.
func TestUpload(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	l := replica.New(t, memory.NewStore())
	s := httptest.NewServer(Middleware{Locker: l, Name: path}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
		}
		if files, err := os.ReadDir(dir); len(files) != 1 {
			t.Errorf("%d files while the request is handled, %v", len(files), err)
		}
	})))
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "name")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write(make([]byte, 1<<20))
	_ = form.Close()
	response, err := s.Client().Post(s.URL+"/x", form.FormDataContentType(), &body)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	s.Close() // when all requests have ended
	if files, err := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("%d files are left, %v", len(files), err)
	}
}

// Two replicas, whose locks are files, and clients that try again until they succeed.
func TestReplicas(t *testing.T) {
	dir := t.TempDir()
	var inside, handled atomic.Int32
	urls := make([]string, 2)
	for i := range urls {
		m := Middleware{Locker: replica.Files(t, dir), Name: path}
		if i == 1 {
			m.Wait = time.Minute
		}
		s := httptest.NewServer(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if inside.Add(1) != 1 {
				t.Error("two requests at the same time")
			}
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			handled.Add(1)
		})))
		t.Cleanup(s.Close)
		urls[i] = s.URL
	}
	defer http.DefaultClient.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for done := 0; done < 5; {
				begun := time.Now()
				response, err := http.Post(urls[i%2]+"/x", "", nil)
				if err != nil {
					t.Error(err)
					return
				}
				_ = response.Body.Close()
				switch status := response.StatusCode; {
				case status == http.StatusOK:
					done++
				case status == http.StatusLocked,
					status == http.StatusServiceUnavailable && time.Since(begun) >= answer: // the machine stood still
					time.Sleep(time.Millisecond) // a client that is told when to come again
				default:
					t.Errorf("status %d", status)
					return
				}
			}
		})
	}
	wg.Wait()
	if handled.Load() != 30 {
		t.Errorf("%d handled, want 30", handled.Load())
	}
}
