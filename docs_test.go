package locker_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every line of Go in the documentation, and of SQL, stands in a file that is compiled.
func TestCodeInDocs(t *testing.T) {
	compiled := map[string]bool{}
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "docs/howto/*_test.go", "docs/howto/*/main.go", "benchmarks/migrate/*_test.go", "adapters/*/*_test.go", "recipes/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range linesOf(t, files...) {
			compiled[code(strings.TrimRight(line, "`"))] = true // the last line of an SQL constant, too
		}
	}
	blocks := 0
	for _, page := range pages(t, "docs") {
		compiles := false
		for i, line := range linesOf(t, page) {
			switch {
			case strings.HasPrefix(line, "```"):
				compiles = line == "```go" || line == "```sql"
				blocks++
			case compiles && !compiled[code(line)]:
				t.Errorf("%s:%d is in no file that is compiled: %s", page, i+1, line)
			}
		}
	}
	if blocks < 10 {
		t.Errorf("%d lines open or close a block", blocks)
	}
}

var (
	inlineLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	image      = regexp.MustCompile(`(?:src|href)="([^"]+)"`)
	linkTarget = regexp.MustCompile(`^\[[^\]]+\]: (\S+)$`)
	notInLinks = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Every link in the documentation leads to a file of this project, and to a heading in it.
func TestLinksInDocs(t *testing.T) {
	all := pages(t, "docs")
	for _, pattern := range []string{"cmd/*/*.md", "benchmarks/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, more...)
	}
	headings := map[string]map[string]bool{}
	links := 0
	for _, page := range all {
		for i, line := range linesOf(t, page) {
			found := append(inlineLink.FindAllStringSubmatch(line, -1), image.FindAllStringSubmatch(line, -1)...)
			for _, m := range append(found, linkTarget.FindAllStringSubmatch(line, -1)...) {
				target, heading, deep := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				links++
				file := page
				if target != "" {
					file = filepath.Join(filepath.Dir(page), target)
				}
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s:%d links %s: %v", page, i+1, m[1], err)
					continue
				}
				if deep && headings[file] == nil {
					headings[file] = headingsOf(t, file)
				}
				if deep && !headings[file][heading] {
					t.Errorf("%s:%d links %s, but there is no such heading", page, i+1, m[1])
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links", links)
	}
}

// headingsOf returns the headings of a page as links name them.
func headingsOf(t *testing.T, page string) map[string]bool {
	all := map[string]bool{}
	for _, line := range linesOf(t, page) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			all[strings.ReplaceAll(notInLinks.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
		}
	}
	return all
}

// Every page of the documentation is linked from its index.
func TestIndexOfDocs(t *testing.T) {
	index := strings.Join(linesOf(t, "docs/README.md"), "\n")
	for _, page := range pages(t, "docs") {
		name, ok := strings.CutPrefix(filepath.ToSlash(page), "docs/")
		if ok && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

// pages returns the Markdown files of the project's folder, and of dir with all that is below it.
func pages(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
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
