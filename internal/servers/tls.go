package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certs is an authority made for one server (or one group), and what it signed.
type certs struct {
	ca, server, serverKey string // files in PEM form
	pool                  *x509.CertPool
	forClient             tls.Certificate
}

func newCerts(dir string) (*certs, error) {
	authority, authorityKey, err := sign("authority", nil, nil)
	if err != nil {
		return nil, err
	}
	server, serverKey, err := sign("server", authority, authorityKey)
	if err != nil {
		return nil, err
	}
	client, clientKey, err := sign("client", authority, authorityKey)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalECPrivateKey(serverKey)
	if err != nil {
		return nil, err
	}
	c := &certs{
		ca:        filepath.Join(dir, "ca.pem"),
		server:    filepath.Join(dir, "server.pem"),
		serverKey: filepath.Join(dir, "server.key"),
		pool:      x509.NewCertPool(),
		forClient: tls.Certificate{Certificate: [][]byte{client.Raw}, PrivateKey: clientKey},
	}
	c.pool.AddCert(authority)
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{
		{c.ca, "CERTIFICATE", authority.Raw},
		{c.server, "CERTIFICATE", server.Raw},
		{c.serverKey, "EC PRIVATE KEY", key},
	} {
		b := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := os.WriteFile(f.path, b, 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// client returns what a client needs to trust the server and to be trusted by it.
func (c *certs) client() *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      c.pool,
		ServerName:   host,
		Certificates: []tls.Certificate{c.forClient},
	}
}

// Certificate makes one for this machine, for what ends TLS in front of servers that do not
// speak it, and what a client needs to trust it.
func Certificate() (server tls.Certificate, client *tls.Config, err error) {
	authority, authorityKey, err := sign("authority", nil, nil)
	if err != nil {
		return server, nil, err
	}
	cert, key, err := sign("front", authority, authorityKey)
	if err != nil {
		return server, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key},
		&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: host}, nil
}

// sign makes a key and a certificate signed by parent, or by itself without one.
func sign(name string, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
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
	if parent == nil {
		parent, parentKey = cert, key
		cert.IsCA, cert.BasicConstraintsValid = true, true
		cert.KeyUsage = x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	signed, err := x509.ParseCertificate(der)
	return signed, key, err
}
