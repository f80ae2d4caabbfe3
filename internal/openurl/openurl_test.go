package openurl

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker"
	"github.com/seed80cd6120/locker/internal/locktest"
	"github.com/seed80cd6120/locker/internal/servers"
	"github.com/seed80cd6120/locker/memory"
)

var must = locktest.Must

// seen is the Server that the opener of test:// was given last.
var seen *Server

func init() {
	Register("test", "tests", "1234", func(_ context.Context, s *Server, opts ...locker.Option) (locker.Locker, error) {
		seen = s
		if _, _, err := s.Duration("wait"); err != nil {
			return nil, err
		}
		if _, err := Number("parameter db", s.Params["db"], 15); err != nil {
			return nil, err
		}
		return memory.New(opts...)
	}, "wait", "db")
}

func open(t *testing.T, url string) error {
	t.Helper()
	l, err := locker.Open(context.Background(), url)
	if err == nil {
		err = l.Close(context.Background())
	}
	return err
}

func TestAddresses(t *testing.T) {
	for hosts, want := range map[string]string{
		"":                          "localhost:1234",
		"a":                         "a:1234",
		"a,b:5,10.0.0.1,[::1]:7":    "a:1234 b:5 10.0.0.1:1234 [::1]:7",
		"[::1],[fd00::2]":           "[::1]:1234 [fd00::2]:1234",
		"u:p@a:1,b":                 "a:1 b:1234",
		"u:p,q@a:65535":             "a:65535",
		"xn--bcher-kva.example:443": "xn--bcher-kva.example:443",
	} {
		if err := open(t, "test://"+hosts); err != nil || !slices.Equal(seen.Addresses, strings.Fields(want)) {
			t.Errorf("%s: %q, %v", hosts, seen.Addresses, err)
		}
	}
	for _, hosts := range []string{"a:0", "a:65536", "a:x", ":1", "::1", "a:1:2", "[::1", "a,b:", "a b", "a:-1", "a:+1", "fe80::1%25eth0"} {
		if err := open(t, "test://"+hosts); err == nil || !strings.Contains(err.Error(), "is not of the form host or host:port") {
			t.Errorf("%s: %v", hosts, err)
		}
	}
}

// A password stands in the URL, in the environment or in a file, and in one of these only.
func TestPassword(t *testing.T) {
	t.Setenv("TEST_PASSWORD", "of the environment")
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("of the file \r\n"), 0o600))
	for url, want := range map[string]string{
		"test://h":                               "",
		"test://:of%20the%20URL@h":               "of the URL",
		"test://u@h?password-env=TEST_PASSWORD":  "of the environment",
		"tests://u@h?password-env=TEST_PASSWORD": "of the environment",
		"test://h?password-file=" + file:         "of the file ",
	} {
		if err := open(t, url); err != nil || seen.Password != want {
			t.Errorf("%s: %q, %v", url, seen.Password, err)
		}
	}
	for url, want := range map[string]string{
		"test://u@h":                                             "user without a password",
		"test://u:p@h?password-env=X":                            "more than one password",
		"test://h?password-env=X&password-file":                  "name=value",
		"test://h?password-env=X&password-file=" + file:          "more than one password",
		"test://h?password-env=NO_SUCH_VARIABLE":                 "no such environment variable",
		"test://h?password-file=" + filepath.Join(file, "below"): "not a directory",
		"test://h?db=16":                                         "number from 0 to 15",
		"test://h?db=-1":                                         "number from 0 to 15",
		"test://h?wait=12":                                       "want a duration",
		"test://h?tls-ca=" + file:                                `unknown parameter "tls-ca"`,
	} {
		if err := open(t, url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The parameters tls-... make a configuration by which client and server trust each other.
func TestTLS(t *testing.T) {
	cert, trusting, err := servers.Certificate()
	must(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	der, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	must(t, err)
	own, key := write("cert.pem", "CERTIFICATE", cert.Certificate[0]), write("key.pem", "EC PRIVATE KEY", der)
	must(t, open(t, "tests://h?tls-ca="+own+"&tls-cert="+own+"&tls-key="+key+"&tls-server-name=n"))
	c := seen.TLS
	if c.InsecureSkipVerify || c.ServerName != "n" || len(c.Certificates) != 1 || c.RootCAs.Equal(trusting.RootCAs) {
		t.Errorf("%+v", c)
	}
	if err := open(t, "tests://h"); err != nil || seen.TLS == nil || seen.TLS.RootCAs != nil || seen.TLS.InsecureSkipVerify {
		t.Errorf("%v: %+v", err, seen.TLS)
	}
	if err := open(t, "test://h"); err != nil || seen.TLS != (*tls.Config)(nil) {
		t.Errorf("%v: %+v", err, seen.TLS)
	}
	for params, want := range map[string]string{
		"tls-ca=" + key:                       "no certificate in this file",
		"tls-ca=" + dir + "/none":             "no such file",
		"tls-cert=" + own:                     "go together",
		"tls-key=" + key:                      "go together",
		"tls-cert=" + key + "&tls-key=" + own: "not a certificate and its key",
	} {
		if err := open(t, "tests://h?"+params); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", params, err)
		}
	}
}
