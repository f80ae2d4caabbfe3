package file

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seed80cd6120/locker/internal/eventually"
)

// A watcher may be closed at once after its first use.
func TestWatcherIsClosedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	must(t, os.WriteFile(path, nil, 0o600))
	for range 200 {
		var w watcher
		s := w.subscribe()
		eventually.Is(t, "watched, also if others have had all inotify instances", func() bool { return s.add(path) })
		w.close()
	}
}
