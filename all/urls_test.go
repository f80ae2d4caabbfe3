package all

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/servers"
)

// schemes are those of the backends in package all.
var schemes = []string{
	"etcd", "etcds", "file", "memory", "redis", "redis+cluster", "redis+sentinel", "rediss", "rediss+cluster", "rediss+sentinel",
	"redlock", "redlocks", "zookeeper", "zookeepers",
}

// elsewhere are the schemes of backends that are modules of their own: their tests open such URLs.
var elsewhere = []string{"mysql", "mysqls", "postgres", "postgress"}

// Every URL in docs/urls.md is one that Open understands, and every scheme stands there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../docs/urls.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir()) // of file://
	t.Setenv("REDIS_PASSWORD", "x")
	t.Setenv("SENTINEL_PASSWORD", "x")
	files := replaceFiles(t)
	found := make(map[string]bool)
	for _, span := range regexp.MustCompile("`[a-z+]+://[^`]*`").FindAllString(string(text), -1) {
		url := strings.Trim(span, "`")
		scheme, _, _ := strings.Cut(url, "://")
		found[scheme] = true
		if err := understood(files.Replace(url)); err != nil && !slices.Contains(elsewhere, scheme) {
			t.Errorf("%s: %v", url, err)
		}
	}
	want := slices.Sorted(slices.Values(slices.Concat(schemes, elsewhere)))
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("docs/urls.md shows %q, want %q", got, want)
	}
}

// understood returns the error of Open, unless that is due to the server, which need not be there.
func understood(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	l, err := locker.Open(ctx, url)
	switch {
	case err == nil:
		return l.Close(context.Background())
	case errors.Is(err, locker.ErrInvalidOption):
		return err
	}
	return nil
}

// replaceFiles replaces the files named in the documentation by such as are there.
func replaceFiles(t *testing.T) *strings.Replacer {
	t.Helper()
	cert, _, err := servers.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := pemFiles(t, cert)
	password := filepath.Join(t.TempDir(), "password")
	write(t, password, []byte("x\n"))
	return strings.NewReplacer("/etc/ssl/me.key", keyFile, "/etc/ssl/me.pem", certFile, "/etc/ssl/zk.pem", certFile,
		"/etc/ssl/redis-ca.pem", certFile, "/run/secrets/redis", password,
		"/var/lib/billing/locks", filepath.Join(t.TempDir(), "locks"))
}

// What a scheme does not know is refused, with what it knows.
func TestRefused(t *testing.T) {
	for url, want := range map[string]string{
		"memory://a,b":                         "want memory:// or memory://name",
		"memory://a/b":                         "want memory:// or memory://name",
		"memory://u:p@a":                       "want memory:// or memory://name",
		"file://s3cret/dir":                    "three slashes",
		"file://u:s3cret@/dir":                 "three slashes",
		"redis://a,b":                          "redis+sentinel://",
		"rediss://a,b":                         "rediss+cluster://",
		"redis://a/x":                          "path: want a number",
		"redis://a/1/2":                        "path: want a number",
		"redis://a?db=1":                       `unknown parameter "db", those of redis:// are hand-over, owner, password-env, password-file, prefix, ttl`,
		"redis://a?tls-ca=x":                   `unknown parameter "tls-ca"`,
		"redis://a?prefix=":                    "prefix: want",
		"redis://a?prefix={s3cret}":            "prefix: want",
		"redis+sentinel://a":                   "name of a master",
		"redis+sentinel://a/m?db=x":            "db: want a number",
		"redis+sentinel://a/m?sentinel-user=u": "user without a password",
		"redis+cluster://a/1":                  "takes no path",
		"redlock://a,b,c/x":                    "path: want a number",
		"redlock://a,b,c?fencing=no":           "true or false",
		"redlock://a,b,c?node-timeout=1":       "want a duration",
		"redlock://a,b,c?node-timeout=1h":      "not between",
		"redlock://a,b,c?prefix={s3cret}":      "prefix: want",
		"redlock://a,b,a":                      "same server",
		"zookeeper://:s3cret@a":                "password without a user",
		"zookeeper://a?acl=auth":               "wants a user",
		"zookeeper://a?acl=all":                "acl: want",
		"zookeeper://a/b/":                     "chroot",
		"etcd://a/b":                           "takes no path",
		"etcd://:s3cret@a":                     "password without a user",
		"etcd://a?prefix=":                     "prefix: want",
		"etcd://a?prefix=s3cret%23":            "prefix: want",
	} {
		l, err := locker.Open(context.Background(), url)
		if l != nil || !errors.Is(err, locker.ErrInvalidOption) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// One name is one store in the whole process, and no name one that is not shared.
func TestMemory(t *testing.T) {
	ctx := context.Background()
	open := func(url string) locker.Locker {
		l, err := locker.Open(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close(ctx) })
		return l
	}
	try := func(l locker.Locker) error { _, err := l.TryAcquire(ctx, "x"); return err }
	if err := errors.Join(try(open("memory://one")), try(open("memory://two")), try(open("memory://")), try(open("memory://"))); err != nil {
		t.Error(err)
	}
	if err := try(open("memory://one")); !errors.Is(err, locker.ErrNotAcquired) {
		t.Error(err)
	}
}
