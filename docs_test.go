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

var (
	inlineLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	image      = regexp.MustCompile(`(?:src|href)="([^"]+)"`)
	linkTarget = regexp.MustCompile(`^\[[^\]]+\]: (\S+)$`)
	notInLinks = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Every link in the documentation leads to a file of this project, and to a heading in it.
func TestLinksInDocs(t *testing.T) {
	headings := map[string]map[string]bool{}
	links := 0
	for _, page := range allPages(t) {
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

var packagePath = regexp.MustCompile(`github\.com/seed80cd6120/locker((?:/[a-z]\w*)*)`)

// Every package of this project that the documentation names, as in "go get", is there.
func TestPackagesInDocs(t *testing.T) {
	named := 0
	for _, page := range allPages(t) {
		for i, line := range linesOf(t, page) {
			for _, m := range packagePath.FindAllStringSubmatch(line, -1) {
				named++
				if files, err := filepath.Glob("." + m[1] + "/*.go"); err != nil || len(files) == 0 {
					t.Errorf("%s:%d names %s, which is no package", page, i+1, m[0])
				}
			}
		}
	}
	if named < 30 {
		t.Errorf("%d packages are named", named)
	}
}

// Every page of the documentation is linked from its index.
func TestIndexOfDocs(t *testing.T) {
	index := strings.Join(linesOf(t, "docs/README.md"), "\n")
	for _, page := range allPages(t) {
		name, ok := strings.CutPrefix(filepath.ToSlash(page), "docs/")
		if ok && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

// allPages returns every Markdown file of the project: those in its folder and in those below it.
func allPages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"results", "testdata", "node_modules"}, d.Name()) || len(path) > 1 && d.Name()[0] == '.'):
			return filepath.SkipDir // what is not part of the project
		case filepath.Ext(path) == ".md":
			all = append(all, path)
		}
		return nil
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
