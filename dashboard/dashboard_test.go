package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/dashboard"
	"github.com/seed80cd6120/locker/driver"
	"github.com/seed80cd6120/locker/memory"
)

func ExampleNew() {
	ctx := context.Background()
	l, err := memory.New()
	if err != nil {
		panic(err)
	}
	defer l.Close(ctx)
	lock, err := l.Acquire(ctx, "orders/42", locker.As("checkout"))
	if err != nil {
		panic(err)
	}
	defer lock.Release(ctx)

	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", dashboard.New(l)))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/locks/", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "orders/42"), strings.Contains(w.Body.String(), "checkout"))
	// Output: 200 true true
}

func open(t *testing.T, s *memory.Store) locker.Locker {
	t.Helper()
	l, err := s.Locker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// ask makes a request and returns the status and the body.
func ask(t *testing.T, h http.Handler, r *http.Request) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	return ask(t, h, httptest.NewRequest("GET", path, nil))
}

var tag = regexp.MustCompile(`<[^>]*>`)

// plain returns the text of a page.
func plain(page string) string {
	return strings.Join(strings.Fields(tag.ReplaceAllString(page, " ")), " ")
}

func TestShowsHoldersAndWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, memory.NewStore())
		lock, err := l.Acquire(t.Context(), "orders/42", locker.As("checkout"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if next, err := l.Acquire(t.Context(), "orders/42", locker.As("refund")); err == nil {
				<-t.Context().Done()
				_ = next.Release(context.Background())
			}
		}()
		reader, err := l.Acquire(t.Context(), "other/<b>", locker.Shared(), locker.As("\x00reader"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(3 * time.Second) // of the bubble
		h := dashboard.New(l)
		status, page := get(t, h, "/")
		for _, want := range []string{
			"2 names held or waited for", fmt.Sprintf("orders/42 holds exclusive checkout %d 3.0s", lock.Token()),
			"waits exclusive refund 3.0s", `other/&lt;b&gt; holds shared &#34;\x00reader&#34;`,
		} {
			if !strings.Contains(plain(page), want) {
				t.Errorf("status %d, the page does not say %q:\n%s", status, want, plain(page))
			}
		}
		if strings.Contains(page, "evict") {
			t.Error("the page can evict")
		}
		if status, _ := ask(t, h, httptest.NewRequest("POST", "/evict", nil)); status != http.StatusNotFound {
			t.Errorf("an eviction answers %d", status)
		}

		// A second later those who have gone are no longer shown.
		_ = reader.Release(t.Context())
		time.Sleep(time.Second)
		if _, rows := get(t, h, "/rows"); !strings.Contains(plain(rows), "1 name held") || strings.Contains(rows, "<html") {
			t.Errorf("the rows are %s", rows)
		}
		if _, rows := get(t, dashboard.New(l, dashboard.WithPrefix("none/")), "/rows"); !strings.Contains(plain(rows), "0 names held") {
			t.Errorf("with a prefix the rows are %s", rows)
		}
	})
}

// However many look, the servers are asked about once a second.
func TestAsksOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		l := open(t, s)
		if _, err := l.Acquire(t.Context(), "x", locker.WithLease(time.Hour)); err != nil {
			t.Fatal(err)
		}
		h := dashboard.New(l)
		_, first := get(t, h, "/rows")
		time.Sleep(100 * time.Millisecond)
		for range 20 {
			if _, rows := get(t, h, "/rows"); rows != first {
				t.Errorf("%s\n%s", rows, first)
			}
		}
		time.Sleep(time.Second)
		if _, rows := get(t, h, "/rows"); rows == first {
			t.Error("a second later it is the same picture")
		}
	})
}

func TestSaysWhyThereIsNoPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		l := open(t, s)
		s.Fail(errors.New("the server is <away>"))
		defer s.Heal()
		status, page := get(t, dashboard.New(l), "/")
		if status != http.StatusBadGateway || !strings.Contains(page, "the server is &lt;away&gt;") {
			t.Errorf("%d %s", status, plain(page))
		}
	})
}

// Many names are shown in part, and the page says so.
func TestManyNames(t *testing.T) {
	l := open(t, memory.NewStore())
	for i := range 1001 {
		if _, err := l.Acquire(t.Context(), fmt.Sprintf("name/%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, page := get(t, dashboard.New(l), "/rows"); !strings.Contains(plain(page), "1000 names held or waited for; there are more") {
		t.Errorf("%.200s", plain(page))
	}
}

var field = regexp.MustCompile(`name="(name|id)" value="([^"]*)"`)

// evictForm returns the form of the first button on the page.
func evictForm(t *testing.T, page string) url.Values {
	t.Helper()
	form := url.Values{}
	for _, m := range field.FindAllStringSubmatch(page, -1) {
		if !form.Has(m[1]) {
			form.Set(m[1], m[2])
		}
	}
	if len(form) != 2 {
		t.Fatalf("no form in %s", page)
	}
	return form
}

func post(form url.Values) *http.Request {
	r := httptest.NewRequest("POST", "/evict", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func TestEvict(t *testing.T) {
	l := open(t, memory.NewStore())
	lock, err := l.Acquire(t.Context(), "x/\xff\n", locker.As("stuck"))
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("not you")
	var asked []driver.Position
	h := dashboard.New(l, dashboard.WithPrefix("x/"), dashboard.WithEvict(func(r *http.Request, p locker.Position) error {
		asked = append(asked, p)
		if r.Header.Get("Authorization") == "" {
			return refused
		}
		return nil
	}))
	_, page := get(t, h, "/")
	form := evictForm(t, page)

	if status, body := ask(t, h, post(form)); status != http.StatusForbidden || !strings.Contains(body, refused.Error()) {
		t.Errorf("without permission: %d %s", status, body)
	}
	if len(asked) != 1 || asked[0].Owner != "stuck" || asked[0].Name != "x/\xff\n" || !asked[0].Held {
		t.Errorf("the check was asked of %+v", asked)
	}
	foreign := post(form)
	foreign.Header.Set("Authorization", "yes")
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if status, _ := ask(t, h, foreign); status != http.StatusForbidden || len(asked) != 1 {
		t.Errorf("from another site: %d", status)
	}
	if err := lock.Context().Err(); err != nil {
		t.Fatal(err)
	}
	allowed := func() *http.Request {
		r := post(form)
		r.Header.Set("Authorization", "yes")
		return r
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, allowed())
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	<-lock.Context().Done()
	if status, _ := ask(t, h, allowed()); status != http.StatusNotFound {
		t.Errorf("once more: %d", status)
	}
	if _, rows := get(t, h, "/rows"); !strings.Contains(plain(rows), "0 names") {
		t.Errorf("after it: %s", plain(rows))
	}
	form.Set("name", "eQ==") // "y", which the page does not show
	if status, _ := ask(t, h, allowed()); status != http.StatusBadRequest {
		t.Errorf("of a name that is not shown: %d", status)
	}
}

// What the page needs comes from the handler, and the page may load nothing else.
func TestLoadsNothingFromElsewhere(t *testing.T) {
	h := dashboard.New(open(t, memory.NewStore()))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if p := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'") {
		t.Errorf("the policy is %q", p)
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
		if status, body := get(t, h, "/"+m[1]); status != http.StatusOK || body == "" {
			t.Errorf("%s: %d", m[1], status)
		}
	}
	if status, _ := get(t, h, "/page.html"); status != http.StatusNotFound {
		t.Errorf("a template: %d", status)
	}
}
