package objectstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/recipes/internal/late"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bucket is a store with as much of S3's language as the recipe needs.
type bucket struct {
	mu      sync.Mutex
	objects map[string]object
}

type object struct {
	body []byte
	etag string
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key, err := url.QueryUnescape(r.URL.EscapedPath()) // a plus is a space, as in S3
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	old, exists := b.objects[key]
	switch {
	case r.Method == http.MethodGet && !exists:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", old.etag)
		_, _ = w.Write(old.body)
	case r.Header.Get("If-Match") != "" && !exists:
		w.WriteHeader(http.StatusNotFound)
	case r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != old.etag, r.Header.Get("If-None-Match") == "*" && exists:
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		b.objects[key] = object{body, fmt.Sprintf(`"%x"`, md5.Sum(body))}
	}
}

func start(t *testing.T) (*Client, *bucket) {
	t.Helper()
	b := &bucket{objects: make(map[string]object)}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	t.Cleanup(s.Client().CloseIdleConnections)
	return &Client{HTTP: s.Client(), Bucket: s.URL}, b
}

func TestPut(t *testing.T) {
	c, _ := start(t)
	late.Test(t, func(ctx context.Context, token int64, value string) error {
		return c.Put(ctx, token, "orders/42", []byte(value))
	}, func(ctx context.Context) (string, error) {
		body, _, _, err := c.Get(ctx, "orders/42")
		return string(body), err
	}, ErrLate)
}

// pausing is a transport that does something before each PUT.
type pausing struct {
	http.RoundTripper
	before func()
}

func (p pausing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		p.before()
	}
	return p.RoundTripper.RoundTrip(r)
}

// A writer that is paused between its look at the token and its write is refused as well, whether there was an
// object or not, and also if the later holder writes what was there.
func TestPausedBeforeWrite(t *testing.T) {
	lost, held := late.Holders(t)
	for _, key := range []string{"new", "old", "same"} {
		c, b := start(t)
		if err := c.Put(t.Context(), lost.Token(), "same", []byte("second")); err != nil {
			t.Error(err)
		}
		b.objects["/old"] = object{[]byte("from before there were tokens"), `"0"`}
		paused := &Client{&http.Client{Transport: pausing{c.HTTP.Transport, func() {
			if err := c.Put(t.Context(), held.Token(), key, []byte("second")); err != nil {
				t.Error(err)
			}
		}}}, c.Bucket}
		if err := paused.Put(t.Context(), lost.Token(), key, []byte("late")); !errors.Is(err, ErrLate) {
			t.Errorf("%s: %v", key, err)
		}
		if body, token, _, err := c.Get(t.Context(), key); !bytes.Equal(body, []byte("second")) || token != held.Token() || err != nil {
			t.Errorf("%s: %q under %d (%v)", key, body, token, err)
		}
	}
}

// Keys are any text.
func TestKeys(t *testing.T) {
	c, _ := start(t)
	keys := []string{"report#1", "report#2", "report?1", "report%31", "a b/ä", "a+b/ä"}
	for _, key := range keys {
		if err := c.Put(t.Context(), 1, key, []byte(key)); err != nil {
			t.Error(err)
		}
	}
	for _, key := range keys {
		if body, _, _, err := c.Get(t.Context(), key); string(body) != key || err != nil {
			t.Errorf("%s: %q, %v", key, body, err)
		}
	}
}

// A write that can never succeed is not tried for ever.
func TestInVain(t *testing.T) {
	for what, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"no bucket": http.NotFound,
		"no ETag":   func(w http.ResponseWriter, r *http.Request) {},
		"always refused": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `W/"1"`)
			if r.Method == http.MethodPut {
				w.WriteHeader(http.StatusPreconditionFailed)
			}
		},
	} {
		var requests atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) > 100 {
				t.Errorf("%s: tried again and again", what)
				answer = http.NotFound
			}
			answer(w, r)
		}))
		c := &Client{s.Client(), s.URL}
		if err := c.Put(t.Context(), 1, "orders/42", nil); err == nil || errors.Is(err, ErrLate) {
			t.Errorf("%s: %v", what, err)
		}
		s.Close()
	}
}

// An object that was deleted since it was read is made anew.
func TestDeleted(t *testing.T) {
	c, b := start(t)
	b.objects["/orders/42"] = object{nil, `"0"`}
	deleting := &Client{&http.Client{Transport: pausing{c.HTTP.Transport, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.objects, "/orders/42")
	}}}, c.Bucket}
	if err := deleting.Put(t.Context(), 1, "orders/42", []byte("again")); err != nil {
		t.Error(err)
	}
	if body, _, _, err := c.Get(t.Context(), "orders/42"); string(body) != "again" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
}
