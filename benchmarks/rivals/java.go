package rivals

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // for what is built
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/contender"
)

var (
	//go:embed java/Compete.java
	javaSource []byte
	//go:embed java/pom.xml
	javaDependencies []byte
)

// JavaMissing says what is missing to measure the libraries in Java; "" if nothing is.
func JavaMissing() string {
	for _, program := range []string{"java", "javac", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed"
		}
	}
	return ""
}

// InJava returns the rivals in Java, none if the machine cannot run them.
func InJava() []contender.Contender {
	if JavaMissing() != "" {
		return nil
	}
	const own = ", in a JVM of its own that measures by itself"
	return contender.List(contender.Rival, []contender.Contender{
		javaContender("Redisson.RLock", "redisson", contender.Redis1,
			"RLock of Redisson 4.7.0, 2 threads and 2 Netty threads for each client, no fewer than 2 connections"+own),
		javaContender("Redisson.FairLock", "redisson-fair", contender.Redis1,
			"the fair RLock of Redisson 4.7.0, else as Redisson.RLock"),
		javaContender("Curator.Mutex", "curator", contender.ZooKeeper1,
			"InterProcessMutex of Apache Curator 5.9.0 with ZooKeeper 3.9.3"+own),
	})
}

func javaContender(name, library string, setup contender.Setup, note string) contender.Contender {
	return contender.Contender{
		Family: name,
		Setup:  setup,
		Note:   note,
		Traits: contender.Traits{Waits: true, Renews: true, MinTTL: time.Second},
		OpenCrowd: func(ctx context.Context, cfg contender.Config, n int) (contender.Crowd, error) {
			return openJVM(ctx, library, cfg, n)
		},
	}
}

// buildJava fetches the libraries and compiles the program, once for all runs; it returns the class path.
var buildJava = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(javaSource, javaDependencies...))
	dir := filepath.Join(cache, "locker", fmt.Sprintf("java-%x", sum[:6]))
	classPath := dir + string(os.PathListSeparator) + filepath.Join(dir, "lib", "*")
	if _, err := os.Stat(dir); err == nil {
		return classPath, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	half, err := os.MkdirTemp(filepath.Dir(dir), "java-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(half)
	err = errors.Join(
		os.WriteFile(filepath.Join(half, "pom.xml"), javaDependencies, 0o644),
		os.WriteFile(filepath.Join(half, "Compete.java"), javaSource, 0o644),
	)
	for _, command := range [][]string{
		{"mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"},
		{"javac", "-cp", filepath.Join("lib", "*"), "Compete.java"},
	} {
		if err != nil {
			break
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = half
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: %w: %s", command[0], err, bytes.TrimSpace(out))
		}
	}
	if err != nil {
		return "", err
	}
	if err := os.Rename(half, dir); err != nil {
		if _, there := os.Stat(dir); there != nil { // else another process was first
			return "", err
		}
	}
	return classPath, nil
})

// warmUp is for how long a crowd competes before it is measured for the first time: the JVM compiles what is called
// often while it runs.
var warmUp = 3 * time.Second

// jvm is the process of a crowd.
type jvm struct {
	*child.Process
	warm bool
}

func openJVM(ctx context.Context, library string, cfg contender.Config, n int) (contender.Crowd, error) {
	classPath, err := buildJava()
	if err != nil {
		return nil, err
	}
	p, err := child.Open(exec.Command("java", "-Xmx512m", "-cp", classPath, "Compete",
		library, strings.Join(cfg.Addrs, ","), strconv.Itoa(n), strconv.FormatInt(cfg.TTL.Milliseconds(), 10)))
	if err != nil {
		return nil, err
	}
	if _, err := p.Hear(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &jvm{Process: p}, nil
}

// Compete implements contender.Crowd.
func (j *jvm) Compete(ctx context.Context, name string, warm, window time.Duration) (*contender.CrowdTally, error) {
	if !j.warm {
		warm = max(warm, warmUp)
		j.warm = true
	}
	if err := j.Say(fmt.Sprint(name, " ", warm.Milliseconds(), " ", window.Milliseconds())); err != nil {
		return nil, err
	}
	line, err := j.Hear(ctx)
	if err != nil {
		return nil, err
	}
	var t contender.CrowdTally
	return &t, json.Unmarshal([]byte(line), &t)
}
