package all

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/conformance"
	"github.com/seed80cd6120/locker/internal/eventually"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
)

// password is one that has to be escaped in a URL.
const password = "s3cret/word?#@%:"

var escaped = url.QueryEscape(password)

// Two Lockers that were opened by one URL take the same locks, with every set-up of servers.
func TestServers(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) string{
		"memory": func(*testing.T) string { return "memory://servers" },
		"file":   func(t *testing.T) string { return "file://" + t.TempDir() },
		"redis": func(t *testing.T) string {
			r := servers.NewRedis(t, servers.RedisOptions{})
			return "redis://" + r.Addr() + "/3?prefix=mine"
		},
		"redis with TLS and passwords": func(t *testing.T) string {
			r := servers.NewRedis(t, servers.RedisOptions{TLS: true, ClientCert: true, Args: aclUser()})
			return fmt.Sprintf("rediss://ann:%s@%s?%s", escaped, r.Addr(), certificates(t, r.Server))
		},
		"sentinel": func(t *testing.T) string {
			g := servers.NewRedisSentinel(t, servers.RedisOptions{Password: "masterword"})
			return "redis+sentinel://:masterword@" + strings.Join(g.SentinelAddrs(), ",") + "/" + g.MasterName + "?db=2"
		},
		"cluster": func(t *testing.T) string {
			c := servers.NewRedisCluster(t, 3, servers.RedisOptions{})
			return "redis+cluster://" + strings.Join(c.Addrs()[:2], ",")
		},
		"redlock": func(t *testing.T) string {
			var hosts []string
			for _, r := range servers.NewRedisSet(t, 3, servers.RedisOptions{Password: "word"}) {
				hosts = append(hosts, r.Addr())
			}
			t.Setenv("TEST_PASSWORD", "word")
			return "redlock://" + strings.Join(hosts, ",") + "/1?node-timeout=20s&password-env=TEST_PASSWORD"
		},
		"zookeeper": func(t *testing.T) string {
			z := servers.NewZooKeeper(t, servers.ZooKeeperOptions{})
			return "zookeeper://ann:" + escaped + "@" + z.Addr() + ",127.0.0.1:1/app?acl=auth"
		},
		"zookeeper with TLS": func(t *testing.T) string {
			front, ca := endTLS(t, servers.NewZooKeeper(t, servers.ZooKeeperOptions{}).Addr())
			return "zookeepers://" + front + "?tls-ca=" + ca
		},
		"etcd": func(t *testing.T) string {
			c := servers.NewEtcdCluster(t, 3, servers.EtcdOptions{})
			return "etcd://" + strings.Join(c.Addrs(), ",") + "?prefix=mine"
		},
		"etcd with TLS": func(t *testing.T) string {
			e := servers.NewEtcd(t, servers.EtcdOptions{TLS: true, ClientCert: true})
			return "etcds://" + e.Addr() + "?" + certificates(t, e.Server)
		},
		"etcd with a password": func(t *testing.T) string {
			e := servers.NewEtcd(t, servers.EtcdOptions{RootPassword: password})
			file := filepath.Join(t.TempDir(), "password")
			write(t, file, []byte(password+"\n"))
			return "etcd://root@" + e.Addr() + "?password-file=" + file
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			exclude(ctx, t, start(t)) // closed before the servers are
		})
	}
}

// aclUser returns the arguments of a Redis with the user ann, who has the password.
func aclUser() []string {
	return []string{"--user", "ann", "on", ">" + password, "~*", "&*", "+@all", "--user", "default", "off"}
}

// exclude opens url twice and hands a lock from one Locker to the other.
func exclude(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	var both [2]locker.Locker
	for i := range both {
		l, err := locker.Open(ctx, url, locker.WithTTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.Close(ctx); err != nil {
				t.Error("Close:", err)
			}
		}()
		both[i] = l
	}
	a, b := both[0], both[1]
	lock, err := a.Acquire(ctx, "orders/42")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.TryAcquire(ctx, "orders/42"); !errors.Is(err, locker.ErrNotAcquired) {
		t.Fatalf("taken twice: %v", err)
	}
	queue, err := locker.Inspect(ctx, b, "orders/42")
	if err != nil || len(queue) != 1 || !queue[0].Held {
		t.Fatalf("%v, %v", queue, err)
	}
	locktest.Release(t, lock)
	next, err := b.Acquire(ctx, "orders/42")
	if err != nil {
		t.Fatal(err)
	}
	if next.Token() <= lock.Token() {
		t.Errorf("token %d after %d", next.Token(), lock.Token())
	}
}

// certificates returns the parameters that make a client of the server, with files that hold what they name.
func certificates(t *testing.T, s *servers.Server) string {
	t.Helper()
	certFile, keyFile := pemFiles(t, s.TLSConfig().Certificates[0])
	return url.Values{"tls-ca": {s.CAFile()}, "tls-cert": {certFile}, "tls-key": {keyFile}}.Encode()
}

// pemFiles writes a certificate and its key to files.
func pemFiles(t *testing.T, cert tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	write(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	write(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}))
	return certFile, keyFile
}

// endTLS returns the address of what ends TLS in front of a server that does not speak it, and the file of
// the certificate by which a client trusts it.
func endTLS(t *testing.T, addr string) (front, caFile string) {
	t.Helper()
	cert, _, err := servers.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	caFile, _ = pemFiles(t, cert)
	return servers.EndTLS(t, cert, addr), caFile
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A password that the server refuses is an error at once, of Open or of the first acquisition, and is
// in no error and no log.
func TestWrongPassword(t *testing.T) {
	redis := servers.NewRedis(t, servers.RedisOptions{Password: "right"})
	etcd := servers.NewEtcd(t, servers.EtcdOptions{RootPassword: "right"})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, url := range []string{
		"redis://:s3cret@" + redis.Addr(), "redis://s3cret:s3cret@" + redis.Addr(),
		"redlock://:s3cret@" + redis.Addr(), "etcd://root:s3cret@" + etcd.Addr(), "etcd://s3cret:s3cret@" + etcd.Addr(),
	} {
		var log eventually.Output
		err := tryOnce(ctx, url, &log)
		if err == nil || ctx.Err() != nil || errors.Is(err, locker.ErrNotAcquired) {
			t.Errorf("%s: %v", url, err)
		}
		if text := fmt.Sprint(err, log.String()); strings.Contains(text, "s3cret") {
			t.Errorf("%s is in: %s", url, text)
		}
	}
}

// tryOnce opens url, prints the Locker to log, where it also logs to, and tries to acquire.
func tryOnce(ctx context.Context, url string, log *eventually.Output) (err error) {
	l, err := locker.Open(ctx, url, locker.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	if err != nil {
		return err
	}
	_, tryErr := l.TryAcquire(ctx, "x")
	over, cancel := context.WithCancel(ctx)
	cancel() // Close would wait for a server that is not there
	closeErr := l.Close(over)
	fmt.Fprintf(log, "%v %+v %#v %s %q %v", l, l, l, l, l, closeErr)
	return tryErr
}

// Open of a server that is not there returns by ctx if it has something to ask, and otherwise without I/O.
func TestNoServer(t *testing.T) {
	for _, url := range []string{"zookeeper://127.0.0.1:1", "etcd://u:p@127.0.0.1:1"} {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		l, err := locker.Open(ctx, url)
		cancel()
		if l != nil || err == nil || errors.Is(err, locker.ErrInvalidOption) {
			t.Errorf("%s: %v", url, err)
		}
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		if l, err := locker.Open(ctx, url); l != nil || err == nil {
			t.Errorf("%s: %v", url, err)
		}
		cancel()
	}
}

// The suite passes on a Locker of Open as on one of a constructor: the cases that need no more than that.
func TestConformance(t *testing.T) {
	for name, backend := range map[string]struct {
		url    func(t *testing.T) string
		claims conformance.Backend
	}{
		"memory": {func(*testing.T) string { return "memory://conformance" }, conformance.Backend{TTL: 300 * time.Millisecond}},
		"redis": {func(t *testing.T) string {
			return "redis://" + servers.NewRedis(t, servers.RedisOptions{}).Addr()
		}, conformance.Backend{TTL: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			url := backend.url(t)
			b := backend.claims
			b.Fair, b.Fenced, b.Shared, b.Permits, b.Downgrade, b.Inspect, b.Evict, b.AtLeast = true, true, true, true, true, true, true, true
			b.New = func(testing.TB) *conformance.Harness {
				return &conformance.Harness{Open: func(ctx context.Context, opts ...locker.Option) (locker.Locker, error) {
					return locker.Open(ctx, url, opts...)
				}}
			}
			conformance.Run(t, b)
		})
	}
}
