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

// A program that imports package redis builds nothing of the other backends' clients, and keeps the gRPC that it has
// for itself if that is not older than grpcFloor.
func TestConsumerOfRedis(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.sum": string(sums),
		"go.mod": "module example.org/consumer\n\ngo 1.26.0\n\nrequire (\n\t" + module + " v0.0.0\n\tgoogle.golang.org/grpc " + grpcFloor + "\n)\n\n" +
			"replace " + module + " => " + filepath.ToSlash(root) + "\n",
		"main.go": "package main\n\nimport _ \"" + module + "/redis\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := func(args ...string) string {
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off", "GOSUMDB=off")
		var problems strings.Builder
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, &problems)
		}
		return strings.TrimSpace(string(out))
	}
	built := list("-deps", ".")
	if !strings.Contains(built, "github.com/redis/go-redis/v9") {
		t.Errorf("it does not build the client of Redis:\n%s", built)
	}
	for _, other := range []string{"google.golang.org/", "go.etcd.io/", "go.uber.org/zap", "github.com/go-zookeeper/", "github.com/go-redsync/"} {
		if strings.Contains(built, "\n"+other) {
			t.Errorf("it builds %s", other)
		}
	}
	if version := list("-m", "-f", "{{.Version}}", "google.golang.org/grpc"); version != grpcFloor {
		t.Errorf("its gRPC %s was raised to %s", grpcFloor, version)
	}
}
