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
		page, err := os.ReadFile(filepath.Dir(path) + ".md")
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(program), "\npackage main")
		if !strings.Contains(string(page), "```go\npackage main"+code+"```\n") {
			t.Errorf("the program in %s.md is not that in %s", filepath.Dir(path), path)
		}
	}
}

// build does what a page says, in an empty folder, with its program; it returns where the program is then.
func build(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```go\n")
	program, _, _ := strings.Cut(rest, "```\n")
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

// This is the code in the README that stands in no other test.
var _ = func(ctx context.Context, work func(context.Context, int64) error) error {
	l, err := file.New("/run/myapp/locks", locker.WithTTL(5*time.Second))
	if err != nil {
		return err
	}
	defer l.Close(ctx)
	return locker.Do(ctx, l, "job", func(ctx context.Context, lock *locker.Lock) error {
		return work(ctx, lock.Token()) // ctx ends if the lock is lost
	})
}
