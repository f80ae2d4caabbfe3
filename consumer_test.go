package locker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// grpcFloor is the oldest gRPC that a program with this module may have. Who raises it in go.mod raises it for all.
const grpcFloor = "v1.41.0"

// consumer is a module that imports package redis and requires some gRPC.
type consumer struct{ dir string }

// newConsumer makes a consumer; grpc is the version that it requires, or empty if it requires none.
func newConsumer(t *testing.T, grpc string) consumer {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	mod := "module example.org/consumer\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n"
	if grpc != "" {
		mod += "\nrequire google.golang.org/grpc " + grpc + "\n"
	}
	c := consumer{t.TempDir()}
	for name, text := range map[string]string{
		"go.sum":  string(sums),
		"go.mod":  mod + "\nreplace " + module + " => " + filepath.ToSlash(root) + "\n",
		"main.go": "package main\n\nimport _ \"" + module + "/redis\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// list runs go list in the consumer. It downloads what the module cache lacks, as it would for a user: the tests
// of this module do not need every go.mod that a consumer needs.
func (c consumer) list(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s\nIf modules are missing: run this test once where the module proxy can be reached (go env GOPROXY).", cmd.Args, err, &problems)
	}
	return strings.TrimSpace(string(out))
}

// A program that imports package redis builds nothing of the other backends' clients, and go.mod names none of them.
func TestConsumerOfRedis(t *testing.T) {
	c := newConsumer(t, "")
	built := c.list(t, "-deps", ".")
	if !strings.Contains(built, "github.com/redis/go-redis/v9") {
		t.Errorf("it does not build the client of Redis:\n%s", built)
	}
	mod, err := os.ReadFile(filepath.Join(c.dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/redis/go-redis/v9") {
		t.Errorf("go list has not completed its go.mod:\n%s", mod)
	}
	for _, other := range []string{"google.golang.org/", "go.etcd.io/", "go.uber.org/zap", "github.com/go-zookeeper/", "github.com/go-redsync/"} {
		if strings.Contains(built, "\n"+other) {
			t.Errorf("it builds %s", other)
		}
		if strings.Contains(string(mod), "\t"+other) {
			t.Errorf("its go.mod requires %s:\n%s", other, mod)
		}
	}
}

// A program that imports package redis keeps the gRPC that it has for itself. One that is older than grpcFloor becomes grpcFloor,
// and no newer.
func TestConsumerKeepsGRPC(t *testing.T) {
	for has, want := range map[string]string{"v1.37.0": grpcFloor, grpcFloor: grpcFloor} {
		c := newConsumer(t, has)
		c.list(t, "-deps", ".") // chooses the versions, as a build does, and writes them into go.mod
		if version := c.list(t, "-m", "-f", "{{.Version}}", "google.golang.org/grpc"); version != want {
			t.Errorf("its gRPC %s became %s, want %s", has, version, want)
		}
	}
}
