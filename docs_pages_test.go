package locker_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every line of Go and SQL in the pages about adapters and fencing stands in a file that is compiled and tested.
func TestPages(t *testing.T) {
	compiled := map[string]bool{}
	for _, pattern := range []string{"adapters/*/*_test.go", "recipes/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range linesOf(t, files...) {
			compiled[code(strings.TrimRight(line, "`"))] = true // the last line of an SQL constant
		}
	}
	for _, page := range []string{"docs/adapters.md", "docs/fencing.md"} {
		language, blocks := "", 0
		for i, line := range linesOf(t, page) {
			switch {
			case strings.HasPrefix(line, "```"):
				language = strings.TrimPrefix(line, "```")
				blocks++
			case slices.Contains([]string{"go", "sql"}, language) && !compiled[code(line)]:
				t.Errorf("%s:%d is in no file that is compiled: %s", page, i+1, line)
			}
		}
		if blocks < 10 || blocks%2 != 0 {
			t.Errorf("%s: %d lines open or close a block", page, blocks)
		}
	}
}
