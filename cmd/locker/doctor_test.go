//go:build unix

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/internal/servers"
)

// found is a finding, as JSON has it.
type found struct{ Severity, Server, What, Means, Do string }

// examine returns the findings about the servers of a URL.
func examine(t *testing.T, url string, status int) []found {
	t.Helper()
	p := start(t, url, "doctor", "--json")
	p.want(status)
	var all []found
	if err := json.Unmarshal([]byte(p.out.String()), &all); err != nil {
		t.Fatalf("%v: %s", err, p.out.String())
	}
	for _, f := range all {
		if f.Server == "" || f.What == "" || (f.Severity == "warning" || f.Severity == "broken") && (f.Means == "" || f.Do == "") {
			t.Errorf("a finding that does not say what to do: %+v", f)
		}
	}
	return all
}

// wants fails the test unless there is a finding of the severity whose text begins so.
func wants(t *testing.T, all []found, severity, what string) {
	t.Helper()
	for _, f := range all {
		if f.Severity == severity && strings.HasPrefix(f.What, what) {
			return
		}
	}
	t.Errorf("no finding %s %q in %+v", severity, what, all)
}

const canLock = "a lock can be taken"

func TestDoctorOnRedis(t *testing.T) {
	t.Parallel()
	r := servers.NewRedis(t, servers.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	all := examine(t, "redis://"+r.Addr(), 0)
	for _, what := range []string{"version ", "no key is evicted", "its clock", "it has no replica", "every lock is on disk", canLock} {
		wants(t, all, "ok", what)
	}
	_, url := newRedis(t)
	wants(t, examine(t, url, 0), "warning", "appendonly is off")

	r = servers.NewRedis(t, servers.RedisOptions{Args: []string{"--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	all = examine(t, "redis://"+r.Addr(), 1)
	wants(t, all, "broken", "maxmemory-policy allkeys-lru")
	wants(t, all, "warning", "appendfsync everysec")
}

// A user who may lock and nothing else, and one who may not.
func TestDoctorOnRedisWithoutPermission(t *testing.T) {
	r := servers.NewRedis(t, servers.RedisOptions{Args: []string{
		"--user", "asker", "on", ">secret", "~*", "&*", "+@all", "-info",
		"--user", "reader", "on", ">secret", "~*", "&*", "+@read", "+@connection", "+info", "+time",
	}})
	wants(t, examine(t, "redis://asker:secret@"+r.Addr(), 0), "unknown", "INFO")
	all := examine(t, "redis://reader:secret@"+r.Addr(), 1)
	wants(t, all, "broken", "a lock was tried")
	for _, f := range all {
		if strings.Contains(f.What+f.Do, "secret") {
			t.Errorf("tells the password: %+v", f)
		}
	}
}

func TestDoctorOnRedLock(t *testing.T) {
	t.Parallel()
	all := make([]string, 3)
	var nodes []*servers.Redis
	for n := range all {
		r, _ := newRedis(t)
		nodes = append(nodes, r)
		all[n] = r.Addr()
	}
	url := "redlock://" + strings.Join(all, ",")
	wants(t, examine(t, url, 0), "ok", "3 of 3 nodes answer")
	wants(t, examine(t, "redlock://"+strings.Join(all[:2], ","), 0), "warning", "2 nodes")
	must(t, nodes[0].Kill())
	findings := examine(t, url, 0)
	wants(t, findings, "warning", "no answer")
	wants(t, findings, "ok", canLock)
	must(t, nodes[1].Kill())
	start(t, url, "doctor").want(69)
}

func TestDoctorOnZooKeeper(t *testing.T) {
	t.Parallel()
	z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
	all := examine(t, "zookeeper://"+z.Addr(), 0)
	wants(t, all, "ok", "version 3.")
	wants(t, all, "warning", "it is alone")
	wants(t, all, "ok", "maxClientCnxns")
	wants(t, all, "ok", canLock)
}

// The program that knows etcd is found beside this one.
func TestDoctorOnEtcd(t *testing.T) {
	t.Parallel()
	e := servers.NewEtcd(t, servers.EtcdOptions{})
	url := "etcd://" + e.Addr()
	all := examine(t, url, 0)
	wants(t, all, "ok", "version 3.")
	wants(t, all, "warning", "1 members")
	wants(t, all, "ok", canLock)
	start(t, url, "run", "x", "-c", "exit 3").want(3)
}

func TestDoctorOnFile(t *testing.T) {
	dir := t.TempDir()
	all := examine(t, "file://"+dir, 0)
	wants(t, all, "ok", "permissions")
	wants(t, all, "ok", canLock)
	must(t, os.Chmod(dir, 0o777))
	wants(t, examine(t, "file://"+dir, 0), "warning", "everybody may write")
}
