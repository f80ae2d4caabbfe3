// Package dashboard shows in a browser who holds which name and who waits for it:
//
//	http.Handle("/locks/", http.StripPrefix("/locks", dashboard.New(l)))
//
// The page is a picture of what [locker.Names] and [locker.Inspect] say, taken anew about once a second, however
// many look at it. It changes nothing, unless [WithEvict] allows it to evict. It loads nothing from elsewhere.
//
// Whoever reaches the handler sees all names and owners: put it behind whatever guards your other pages for operators.
// The path under which it is mounted ends with a slash.
package dashboard

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/seed80cd6120/locker"
)

const (
	// maxNames is how many names are shown at most.
	maxNames = 1000
	// fresh is for how long a picture is shown to all who ask.
	fresh = 900 * time.Millisecond
	// patience is how long the servers may take for a picture or an eviction.
	patience = 10 * time.Second
	// atOnce is how many names are inspected at the same time.
	atOnce = 8
)

var (
	//go:embed page.html rows.html style.css script.js
	files     embed.FS
	templates = template.Must(template.New("").Funcs(template.FuncMap{
		"text": text, "key": key, "since": since, "left": left,
	}).ParseFS(files, "*.html"))
)

// An Option changes what New returns.
type Option func(*handler)

// WithPrefix shows only names that begin with prefix.
func WithPrefix(prefix string) Option {
	return func(h *handler) { h.prefix = prefix }
}

// WithEvict lets the page evict a holder or a waiter if check returns nil. check is called for each eviction, with the
// request, by which it can tell who asks, and the position as it is then; what its error says is shown. Requests that
// a browser makes for a page of another site are refused before.
func WithEvict(check func(r *http.Request, p locker.Position) error) Option {
	return func(h *handler) { h.check = check }
}

// New returns a handler that shows the names of l. l may be any Locker whose backend supports Inspect; others make a
// page that says so.
func New(l locker.Locker, opts ...Option) http.Handler {
	h := &handler{locker: l}
	for _, opt := range opts {
		opt(h)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.page)
	mux.HandleFunc("GET /rows", h.rows)
	mux.Handle("GET /style.css", http.FileServerFS(files))
	mux.Handle("GET /script.js", http.FileServerFS(files))
	if h.check != nil {
		mux.HandleFunc("POST /evict", h.evict)
	}
	return http.NewCrossOriginProtection().Handler(mux)
}

type handler struct {
	locker locker.Locker
	prefix string
	check  func(*http.Request, locker.Position) error

	mu     sync.Mutex // held while a picture is taken
	latest picture
}

// picture is what the servers said at one moment.
type picture struct {
	Taken time.Time
	Names []name
	More  bool  // there are more names than are shown
	Err   error // or nil
	Evict bool  // the page may evict
}

// name is one name with those who want it.
type name struct {
	Name             string
	Holders, Waiters []locker.Position
}

// page answers the whole page.
func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.write(w, r, "page.html")
}

// rows answers the part of the page that changes.
func (h *handler) rows(w http.ResponseWriter, r *http.Request) { h.write(w, r, "rows.html") }

func (h *handler) write(w http.ResponseWriter, r *http.Request, file string) {
	p := h.picture(r.Context())
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, file, p); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if p.Err != nil {
		w.WriteHeader(http.StatusBadGateway)
	}
	_, _ = w.Write(b.Bytes())
}

// picture returns the latest picture, or a new one if that is too old.
func (h *handler) picture(ctx context.Context) picture {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil && time.Since(h.latest.Taken) > fresh {
		// One who leaves meanwhile does not spoil it for the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		h.latest = h.take(ctx)
	}
	return h.latest
}

// take asks the servers.
func (h *handler) take(ctx context.Context) picture {
	p := picture{Evict: h.check != nil}
	var found []string
	for n, err := range locker.Names(ctx, h.locker, h.prefix) {
		if err != nil {
			p.Err = err
			break
		}
		if p.More = len(found) == maxNames; p.More {
			break
		}
		found = append(found, n)
	}
	slices.Sort(found)
	names := make([]name, len(found))
	errs := make([]error, len(found))
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, n := range found {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			names[i], errs[i] = h.inspect(ctx, n)
		})
	}
	all.Wait()
	for i, n := range names {
		switch {
		case errs[i] != nil && p.Err == nil:
			p.Err = errs[i]
		case len(n.Holders)+len(n.Waiters) > 0: // it may have become free meanwhile
			p.Names = append(p.Names, n)
		}
	}
	p.Taken = time.Now()
	return p
}

func (h *handler) inspect(ctx context.Context, n string) (name, error) {
	positions, err := locker.Inspect(ctx, h.locker, n)
	found := name{Name: n}
	for _, p := range positions {
		if p.Held {
			found.Holders = append(found.Holders, p)
		} else {
			found.Waiters = append(found.Waiters, p)
		}
	}
	return found, err
}

// evict evicts the holder or waiter that the form names, if the check allows it, and leads back to the page.
func (h *handler) evict(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<14)
	raw, err := base64.URLEncoding.DecodeString(r.PostFormValue("name"))
	if err != nil || !strings.HasPrefix(string(raw), h.prefix) {
		http.Error(w, "no such name", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	positions, err := locker.Inspect(ctx, h.locker, string(raw))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	i := slices.IndexFunc(positions, func(p locker.Position) bool { return p.ID == r.PostFormValue("id") })
	if i < 0 {
		http.Error(w, locker.ErrNotFound.Error(), http.StatusNotFound)
		return
	}
	if err := h.check(r, positions[i]); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	switch err := locker.Evict(ctx, h.locker, positions[i]); {
	case errors.Is(err, locker.ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	h.mu.Lock()
	h.latest = picture{} // what is shown next is without it
	h.mu.Unlock()
	w.Header().Set("Location", "./") // relative to the path under which the handler is mounted
	w.WriteHeader(http.StatusSeeOther)
}

// text returns s as it is if it can be read, otherwise quoted.
func text(s string) string {
	if strings.ToValidUTF8(s, "") != s || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// key returns a name in a form that comes back from a browser as it was, whatever its bytes are.
func key(name string) string { return base64.URLEncoding.EncodeToString([]byte(name)) }

// since returns for how long something has been so, at the moment now; nothing if that is not known.
func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return rounded(max(now.Sub(t), 0))
}

// left returns a time that is left, nothing if that is not known.
func left(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return rounded(d)
}

func rounded(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
