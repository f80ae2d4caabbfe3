package servers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// EtcdVersion is the version of etcd that is built and run. The module in the folder
// etcd, beside this file, requires it.
const EtcdVersion = "v3.7.3"

func etcdBinary(ctx context.Context, old bool) (string, error) {
	if !old {
		return BuildEtcd(ctx)
	}
	bin, err := exec.LookPath("etcd")
	if err != nil {
		return "", fmt.Errorf(`%w: etcd not found: run "make setup" (or install etcd 3.4, Debian's etcd-server)`, ErrMissing)
	}
	return bin, nil
}

// BuildEtcd returns the path of an etcd of [EtcdVersion], in the user's cache folder.
// If it is not there yet it is built first, which takes about a minute and is said on
// the standard logger. Processes that want it at the same time build it once.
func BuildEtcd(ctx context.Context) (string, error) {
	src, err := etcdSource()
	if err != nil {
		return "", err
	}
	sum, err := hashFiles(src, "main.go", "go.mod", "go.sum")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "locker")
	bin := filepath.Join(dir, fmt.Sprintf("etcd-%s-%s", EtcdVersion, sum))
	if isThere(bin) {
		return bin, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build etcd: %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, "lock"), syscall.LOCK_EX)
	if err != nil {
		return "", fmt.Errorf("build etcd: %w", err)
	}
	defer lock.Close()
	if isThere(bin) {
		return bin, nil
	}
	goBin, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("%w: go not found: it is needed to build etcd", ErrMissing)
	}
	log.Printf("servers: building etcd %s once, into %s; this takes about a minute", EtcdVersion, bin)
	part := bin + ".part"
	cmd := exec.CommandContext(ctx, goBin, "build", "-mod=readonly", "-trimpath", "-o", part, ".")
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build etcd %s: %w\n%s", EtcdVersion, err, out), ctx.Err())
	}
	if err := os.Rename(part, bin); err != nil {
		return "", fmt.Errorf("build etcd: %w", err)
	}
	return bin, nil
}

// etcdSource finds the folder of the module that etcd is built from.
func etcdSource() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	if dir := filepath.Join(filepath.Dir(file), "etcd"); isThere(filepath.Join(dir, "go.mod")) {
		return dir, nil
	}
	// Built with -trimpath: ask the go command, which knows from the working folder.
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/seed80cd6120/locker/internal/servers").Output()
	if dir := filepath.Join(strings.TrimSpace(string(out)), "etcd"); err == nil && isThere(filepath.Join(dir, "go.mod")) {
		return dir, nil
	}
	return "", errors.New("build etcd: its module is not found from here; run from within the project")
}

func hashFiles(dir string, names ...string) (string, error) {
	h := sha256.New()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("build etcd: %w", err)
		}
		h.Write(b)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
