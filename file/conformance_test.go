//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Backend{
		New: newHarness, Dial: func(_ context.Context, dir string, opts ...locker.Option) (locker.Locker, error) {
			return New(dir, opts...)
		},
		Fair: true, Fenced: true, Shared: true, Permits: true, Downgrade: true, Inspect: true, Evict: true, AtLeast: true,
		Durable: true, Private: true,
		TTL: time.Second,
	})
}

func BenchmarkConformance(b *testing.B) { conformance.Benchmark(b, newHarness) }

// newHarness makes a directory. There is no server that could be stopped, and no connection that could be broken.
func newHarness(t testing.TB) *conformance.Harness {
	dir := t.TempDir()
	var mu sync.Mutex
	var opened []*backend
	return &conformance.Harness{
		Address: dir,
		Open: func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
			d, l, err := openBackend(dir, opts...)
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, d)
			return l, err
		},
		OpenLink: func(_ context.Context, opts ...locker.Option) (locker.Locker, conformance.Link, error) {
			return openLink(dir, opts...)
		},
		Destroy: func(_ context.Context, name string) error { return destroy(dir, name) },
		// A directory does nothing by itself. What the dead have left is removed by any Locker that looks, as this one
		// would within a minute.
		Leftovers: func(_ context.Context, text string) ([]string, error) {
			d, _, err := openBackend(dir)
			if err != nil {
				return nil, err
			}
			d.sweep()
			return ticketsIn(dir, text)
		},
		Requests: func(context.Context) (n int64, _ error) {
			mu.Lock()
			defer mu.Unlock()
			for _, d := range opened {
				n += d.requests.Load()
			}
			return n, nil
		},
		Misconfigured: map[string]func(context.Context, ...locker.Option) (locker.Locker, error){
			"not a directory": func(_ context.Context, opts ...locker.Option) (locker.Locker, error) {
				path := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					return nil, err
				}
				return New(path, opts...)
			},
			"no directory": func(_ context.Context, opts ...locker.Option) (locker.Locker, error) { return New("", opts...) },
		},
	}
}

// destroy removes the tickets of the holders of name.
func destroy(dir, name string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "names", queueName(name), "*"))
	paths = slices.DeleteFunc(paths, func(path string) bool {
		b, _ := os.ReadFile(path)
		r, ok := decode(b)
		return !ok || !r.Held
	})
	for _, path := range paths { // none of those who are granted the name now
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// openBackend is New, which also returns what is below.
func openBackend(dir string, opts ...locker.Option) (*backend, locker.Locker, error) {
	cfg, err := locker.NewConfig[struct{}]("file", nil, opts...)
	if err != nil {
		return nil, nil, err
	}
	d, err := open(dir, cfg)
	if err != nil {
		return nil, nil, err
	}
	l, err := locker.New(d, cfg)
	return d, l, err
}

// ticketsIn returns what there is of names that contain text, and of names that cannot be told.
func ticketsIn(dir, text string) (left []string, err error) {
	err = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		parts := strings.Split(rel, string(filepath.Separator))
		if err != nil || len(parts) < 2 || parts[0] == "clock" {
			if errors.Is(err, os.ErrNotExist) {
				err = nil
			}
			return err
		}
		if e.IsDir() {
			if rest, err := readNames(path); err == nil && len(rest) == 0 {
				left = append(left, "empty "+rel)
			}
			return nil
		}
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if r, ok := decode(b); !ok || strings.Contains(string(r.Name), text) {
			left = append(left, fmt.Sprintf("%s: %s", rel, b))
		}
		return err
	})
	return left, err
}
