package file

import (
	"os"
	"path/filepath"
	"testing"
)

// A watcher may be closed at once after its first use.
func TestWatcherIsClosedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		var w watcher
		if s := w.subscribe(); !s.add(path) {
			t.Fatal("not watched")
		}
		w.close()
	}
}
