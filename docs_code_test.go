package locker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notCode names the pages that have blocks of text which nobody compiles or runs, and what those show.
var notCode = map[string]string{
	"CONTRIBUTING.md":             "the layers",
	"benchmarks/README.md":        "folders",
	"docs/design/architecture.md": "the layers",
	"docs/design/etcd.md":         "keys and values",
	"docs/design/file.md":         "files",
	"docs/design/redis.md":        "values",
	"docs/design/zookeeper.md":    "the name of a node",
	"docs/fencing.md":             "two holders, one below the other",
}

// block is a block of code on a page.
type block struct {
	page  string
	line  int    // of its first line, from 1
	kind  string // what stands behind the fence; "sh" for a block that is indented
	lines []string
}

// blocks returns the blocks of code on the pages.
func blocks(t *testing.T, pages []string) []block {
	var all []block
	for _, page := range pages {
		var now *block
		fenced := false
		end := func() {
			if now != nil {
				all = append(all, *now)
			}
			now, fenced = nil, false
		}
		for i, line := range linesOf(t, page) {
			indented, ok := strings.CutPrefix(line, "    ")
			switch {
			case strings.HasPrefix(line, "```") && fenced:
				end()
			case strings.HasPrefix(line, "```"):
				end()
				now, fenced = &block{page: filepath.ToSlash(page), line: i + 2, kind: line[3:]}, true
			case fenced:
				now.lines = append(now.lines, line)
			case ok && now == nil:
				now = &block{page: filepath.ToSlash(page), line: i + 1, kind: "sh", lines: []string{indented}}
			case ok:
				now.lines = append(now.lines, indented)
			case strings.HasPrefix(line, "\t"):
				t.Errorf("%s:%d begins with a tab: is it code?", page, i+1)
			default:
				end()
			}
		}
		end()
	}
	return all
}

// Every block of code on every page is compiled or run; a block of a kind for which there is no check is refused.
//
//   - go: its lines stand, one after the other, in a file that is compiled. Whole programs are run by docs/howto.
//   - sql: the same, in a test of recipes, which runs it on SQLite and PostgreSQL.
//   - console: TestSession in cmd/locker runs the sessions of all pages.
//   - sh, and what is indented: bash can parse it, and what it names is there. TestShell in cmd/locker runs the
//     lines in which locker is called.
//   - text: no code; the pages are in notCode.
func TestCodeInDocs(t *testing.T) {
	var compiled []string // what a file has, in one string each
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "docs/howto/*_test.go", "docs/howto/*/main.go", "benchmarks/migrate/*_test.go", "benchmarks/migrate/*/*_test.go", "adapters/*/*_test.go", "recipes/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			compiled = append(compiled, condensed(linesOf(t, file)))
		}
	}
	seen := map[string]int{}
	shell := &shellCheck{}
	for _, b := range blocks(t, allPages(t)) {
		seen[b.kind]++
		switch b.kind {
		case "go", "sql":
			if want := condensed(b.lines); !slices.ContainsFunc(compiled, func(text string) bool { return strings.Contains(text, want) }) {
				t.Errorf("%s:%d is in no file that is compiled:\n%s", b.page, b.line, strings.Join(b.lines, "\n"))
			}
		case "sh":
			shell.check(t, b)
		case "console": // run by TestSession
		case "text":
			if notCode[b.page] == "" {
				t.Errorf("%s:%d is text that nobody checks", b.page, b.line)
			}
			checkFolders(t, b)
		default:
			t.Errorf("%s:%d: there is no check for blocks of kind %q", b.page, b.line, b.kind)
		}
	}
	for _, kind := range []string{"go", "sql", "console", "sh", "text"} {
		if seen[kind] < 3 {
			t.Errorf("%d blocks of kind %s", seen[kind], kind)
		}
	}
}

// condensed returns code as one string, without comments and spacing. Each line is between two line ends.
func condensed(lines []string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for _, line := range lines {
		if line := code(strings.TrimRight(line, "`")); line != "" { // the last line of an SQL constant, too
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// code returns a line without its comment and its spacing.
func code(line string) string {
	line, _, _ = strings.Cut(line, " //")
	line = strings.Join(strings.Fields(line), " ")
	if strings.HasPrefix(line, "//") {
		return ""
	}
	return line
}

// checkFolders fails the test for a word with a slash at its end that is no folder beside the page.
func checkFolders(t *testing.T, b block) {
	for i, line := range b.lines {
		for _, word := range strings.Fields(line) {
			if !strings.HasSuffix(word, "/") {
				continue
			}
			if info, err := os.Stat(filepath.Join(filepath.Dir(b.page), word)); err != nil || !info.IsDir() {
				t.Errorf("%s:%d: no folder %s", b.page, b.line+i, word)
			}
		}
	}
}

// shellCheck checks lines for a shell.
type shellCheck struct {
	program string // the comparison, built when it is first needed
}

var (
	comment    = regexp.MustCompile(`\s#.*$`)
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
	// A word, or a part of one, in single or double quotes or without.
	word = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
)

// check fails the test if bash cannot parse the block, or if it calls a make target, a package, a test or a flag of the comparison
// that is not there, or a program for which there is no check.
func (s *shellCheck) check(t *testing.T, b block) {
	t.Helper()
	if bash, err := exec.LookPath("bash"); err == nil {
		cmd := exec.Command(bash, "-n")
		cmd.Stdin = strings.NewReader(strings.Join(b.lines, "\n"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s:%d: %v\n%s", b.page, b.line, err, out)
		}
	}
	for i, line := range b.lines {
		for command := range strings.SplitSeq(comment.ReplaceAllString(line, ""), "&&") {
			words := word.FindAllString(command, -1)
			for j, w := range words {
				words[j] = strings.NewReplacer(`'`, "", `"`, "").Replace(w)
			}
			for len(words) > 0 && assignment.MatchString(words[0]) {
				words = words[1:]
			}
			if len(words) == 0 {
				continue
			}
			problem := "there is no check for this program"
			switch words[0] {
			case "locker":
				problem = "" // run by TestShell
			case "make":
				problem = s.make(t, words[1:])
			case "go":
				dir := "."
				if b.page == "docs/track-record.md" { // it says so
					dir = "benchmarks"
				}
				problem = s.goTool(t, dir, words[1:])
			}
			if problem != "" {
				t.Errorf("%s:%d: %s: %s", b.page, b.line+i, strings.TrimSpace(command), problem)
			}
		}
	}
}

// make returns what is wrong with a call of make.
func (s *shellCheck) make(t *testing.T, args []string) string {
	lines := linesOf(t, "Makefile")
	for _, arg := range args {
		if assignment.MatchString(arg) {
			continue
		}
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, arg+":") }) {
			return "no target " + arg
		}
	}
	return ""
}

// goTool returns what is wrong with a call of the go command in dir.
func (s *shellCheck) goTool(t *testing.T, dir string, args []string) string {
	if args[0] == "-C" {
		dir, args = args[1], args[2:]
	}
	verb, args := args[0], args[1:]
	switch verb {
	case "mod", "get": // docs/howto runs them; a module of their own has a line in go.mod
		return ""
	case "install":
		path, _, _ := strings.Cut(args[0], "@")
		return noPackage(dir, strings.Replace(path, module, ".", 1))
	case "build":
		return noPackage(dir, args[len(args)-1])
	case "run":
		if problem := noPackage(dir, args[0]); problem != "" || args[0] != "./compare" {
			return problem
		}
		return s.compare(t, args[1:])
	case "test":
		pkg, run := ".", ""
		for i, arg := range args {
			switch {
			case arg == "-run":
				run, _, _ = strings.Cut(args[i+1], "/")
			case strings.HasPrefix(arg, "./"):
				pkg = arg
			}
		}
		if problem := noPackage(dir, pkg); problem != "" {
			return problem
		}
		return noTest(t, filepath.Join(dir, strings.TrimSuffix(pkg, "...")), run)
	}
	return "there is no check for go " + verb
}

// noPackage returns what is wrong if there is no package at path below dir.
func noPackage(dir, path string) string {
	path = filepath.Join(dir, strings.TrimSuffix(path, "..."))
	if _, err := os.Stat(path); err != nil {
		return err.Error()
	}
	return ""
}

// noTest returns what is wrong if no test in dir has a name that matches run.
func noTest(t *testing.T, dir, run string) string {
	if run == "" {
		return ""
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^func Test\w*` + `\(`)
	wanted := regexp.MustCompile(run)
	for _, line := range linesOf(t, files...) {
		if f := name.FindString(line); f != "" && wanted.MatchString(strings.TrimSuffix(strings.TrimPrefix(f, "func "), "(")) {
			return ""
		}
	}
	return "no test " + run + " in " + dir
}

// compare returns what is wrong with the flags of a call of the comparison, which parses them and lists what there is.
func (s *shellCheck) compare(t *testing.T, args []string) string {
	if testing.Short() {
		return ""
	}
	if s.program == "" {
		s.program = filepath.Join(t.TempDir(), "compare")
		if out, err := exec.Command("go", "-C", "benchmarks", "build", "-o", s.program, "./compare").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	out, err := exec.Command(s.program, append(slices.Clone(args), "-list")...).CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(out)
	}
	there := regexp.MustCompile(`[\w-]+`).FindAllString(string(out), -1)
	for i, arg := range args {
		if !slices.Contains([]string{"-backends", "-rivals", "-experiments"}, arg) {
			continue
		}
		for name := range strings.SplitSeq(args[i+1], ",") {
			if name != "none" && !slices.Contains(there, name) {
				return "there is no " + name
			}
		}
	}
	return ""
}
