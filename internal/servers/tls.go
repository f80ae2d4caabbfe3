package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// certs is what an authority made for one server (or one group) has signed.
type certs struct {
	ca, server, serverKey string // files in PEM form
	conf                  *tls.Config
}

func newCerts(dir string) (*certs, error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	server, err := a.issue("server")
	if err != nil {
		return nil, err
	}
	client, err := a.issue("client")
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalECPrivateKey(server.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return nil, err
	}
	c := &certs{
		ca:        filepath.Join(dir, "ca.pem"),
		server:    filepath.Join(dir, "server.pem"),
		serverKey: filepath.Join(dir, "server.key"),
		conf:      a.trusting(client),
	}
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{
		{c.ca, "CERTIFICATE", a.cert.Raw},
		{c.server, "CERTIFICATE", server.Certificate[0]},
		{c.serverKey, "EC PRIVATE KEY", key},
	} {
		b := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := os.WriteFile(f.path, b, 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Certificate makes one for this machine, for what ends TLS in front of servers that do not
// speak it, and what a client needs to trust it.
func Certificate() (server tls.Certificate, client *tls.Config, err error) {
	a, err := newAuthority()
	if err != nil {
		return server, nil, err
	}
	server, err = a.issue("front")
	return server, a.trusting(), err
}

// EndTLS listens for TLS and passes on what comes to the server at target in plain text, until t ends.
func EndTLS(t testing.TB, cert tls.Certificate, target string) (addr string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { pass(client, target) })
		}
	})
	return listener.Addr().String()
}

// pass carries bytes both ways until one side hangs up.
func pass(client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	up.Wait()
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (a *authority, err error) {
	a = &authority{}
	a.cert, a.key, err = sign("authority", nil)
	return a, err
}

func (a *authority) issue(name string) (tls.Certificate, error) {
	cert, key, err := sign(name, a)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}, nil
}

// trusting returns the configuration of a client that trusts what a signed, with
// certificates of its own.
func (a *authority) trusting(own ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: host, Certificates: own}
}

// sign makes a key and a certificate signed by an authority, or by itself without one.
func sign(name string, by *authority) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, nil, err
	}
	cert := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "locker test " + name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.ParseIP(host)},
		DNSNames:     []string{"localhost"},
	}
	if by == nil {
		by = &authority{cert, key}
		cert.IsCA, cert.BasicConstraintsValid = true, true
		cert.KeyUsage = x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, by.cert, &key.PublicKey, by.key)
	if err != nil {
		return nil, nil, err
	}
	signed, err := x509.ParseCertificate(der)
	return signed, key, err
}
