package locker_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every line of Go in the README stands in a test file, so that it compiles.
func TestReadme(t *testing.T) {
	compiled := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range linesOf(t, files...) {
			compiled[code(line)] = true
		}
	}
	inGo, blocks := false, 0
	for i, line := range linesOf(t, "README.md") {
		switch {
		case strings.HasPrefix(line, "```"):
			inGo = line == "```go"
			blocks++
		case inGo && !compiled[code(line)]:
			t.Errorf("README.md:%d is in no test file: %s", i+1, line)
		}
	}
	if blocks < 10 {
		t.Errorf("%d lines open or close a block", blocks)
	}
}

func linesOf(t *testing.T, files ...string) []string {
	t.Helper()
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = slices.AppendSeq(all, strings.SplitSeq(string(text), "\n"))
	}
	return all
}

// code returns a line without its comment and its spacing.
func code(line string) string {
	line, _, _ = strings.Cut(line, "//")
	return strings.Join(strings.Fields(line), " ")
}

// CONTRIBUTING.md names every file of the core, and none that is not there.
func TestContributingNamesFiles(t *testing.T) {
	named := map[string]bool{}
	for _, line := range linesOf(t, "CONTRIBUTING.md") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for i, word := range strings.Split(strings.Split(line, "|")[1], "`") {
			if i%2 == 1 && strings.HasSuffix(word, ".go") {
				named[word] = true
			}
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && !named[file] {
			t.Errorf("CONTRIBUTING.md does not name %s", file)
		}
		delete(named, file)
	}
	for file := range named {
		t.Errorf("CONTRIBUTING.md names %s, which is not there", file)
	}
}
