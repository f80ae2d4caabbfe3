package howto_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/file"
	"github.com/seed80cd6120/locker/internal/eventually"
)

// Every whole program on a page is the one in the folder of the page's name, and says what the page says.
func TestPages(t *testing.T) {
	dirs, err := filepath.Glob("*/main.go")
	if err != nil || len(dirs) < 6 {
		t.Fatalf("%d programs, %v", len(dirs), err)
	}
	for _, path := range dirs {
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(program), "\npackage main")
		if name := filepath.Dir(path); programOf(t, name) != "package main"+code {
			t.Errorf("the program on the page %s is not that in %s", name, path)
		}
	}
}

// programOf returns the program on a page.
func programOf(t *testing.T, name string) string {
	t.Helper()
	path := name + ".md"
	if name == "readme" {
		path = "../../README.md"
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```go\npackage main")
	program, _, _ := strings.Cut(rest, "```\n")
	return "package main" + program
}

// build does what a page says, in an empty folder, with its program; it returns where the program is then.
func build(t *testing.T, name string) string {
	t.Helper()
	program := programOf(t, name)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for file, text := range map[string]string{"main.go": program, "go.sum": string(sums)} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// This folder takes the place of the module's latest version, and what it needs is here already.
	module := "github.com/seed80cd6120/locker"
	for _, args := range [][]string{
		{"mod", "init", "example"},
		{"mod", "edit", "-require=" + module + "@v0.0.0", "-replace=" + module + "=" + root},
		{"build", "-o", "example", "."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off", "GOSUMDB=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
		}
	}
	return filepath.Join(dir, "example")
}

// command makes a command that runs in dir, with locks of its own there.
func command(dir, program string) *exec.Cmd {
	cmd := exec.Command(program)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LOCKER_URL=file://"+filepath.ToSlash(dir)+"/locks")
	return cmd
}

// Each program does, when it is run for the first and for the second time, what its page says.
func TestPrograms(t *testing.T) {
	for name, want := range map[string][2]string{
		"cron-once":    {"the job runs\n", "another replica has the job\n"},
		"migrate-once": {"migrating to version 2\nthe service starts\n", "nothing to migrate\nthe service starts\n"},
		"per-entity":   {"account 7 has 20\n", "account 7 has 20\n"},
		"permits": {
			strings.Repeat("calling\n", 6) + "six calls took a second or more: true\n",
			strings.Repeat("calling\n", 6) + "six calls took a second or more: true\n",
		},
		"several-names": {strings.Repeat("holds account/3\nholds account/7\n", 2), strings.Repeat("holds account/3\nholds account/7\n", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, dir := build(t, name), t.TempDir()
			for i, want := range want {
				out, err := command(dir, program).CombinedOutput()
				if err != nil || string(out) != want {
					t.Errorf("run %d: %v, %q, want %q", i+1, err, out, want)
				}
			}
		})
	}
}

// The second replica leads when the first has ended.
func TestOneLeader(t *testing.T) {
	t.Parallel()
	program, dir := build(t, "one-leader"), t.TempDir()
	start := func() (*exec.Cmd, func() string) {
		path := filepath.Join(t.TempDir(), "out")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		cmd := command(dir, program)
		cmd.Stdout, cmd.Stderr = f, f
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd, func() string {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
	}
	first, says := start()
	eventually.Within(t, time.Minute, "the first leads", func() bool { return strings.Contains(says(), "leading with token") })
	_, second := start()
	eventually.Within(t, time.Minute, "the second campaigns", func() bool { return strings.Contains(second(), "campaigning") })
	if strings.Contains(second(), "leading") {
		t.Errorf("both lead: %s", second())
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually.Within(t, time.Minute, "the second leads", func() bool { return strings.Contains(second(), "leading with token") })
	if err := first.Wait(); err != nil || !strings.Contains(says(), "no longer leading") {
		t.Errorf("the first ended with %v and said %s", err, says())
	}
}

// The program in the README waits until the command, which has the same folder, releases the name.
func TestReadme(t *testing.T) {
	t.Parallel()
	program, dir := build(t, "readme"), t.TempDir()
	l, err := file.New(filepath.Join(dir, "locker"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	lock, err := l.Acquire(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	eventually.Within(t, time.Minute, "the program waits", func() bool {
		positions, err := locker.Inspect(t.Context(), l, "job")
		return err == nil && len(positions) == 2
	})
	if err := lock.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil || !strings.HasPrefix(out.String(), "mine, with token ") || !strings.HasSuffix(out.String(), "done: <nil>\n") {
		t.Errorf("%v, %q", err, out.String())
	}
}
