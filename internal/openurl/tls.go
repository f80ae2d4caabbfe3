package openurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/seed80cd6120/locker"
)

// tlsConfig returns what the parameters tls-... say. Without tls-ca the servers' certificates are
// checked by those that the system trusts; there is no parameter to leave the check out.
func tlsConfig(u *locker.URL) (*tls.Config, error) {
	config := &tls.Config{ServerName: u.Params["tls-server-name"]}
	if _, ok := u.Params["tls-ca"]; ok {
		pem, err := readFile(u, "tls-ca")
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("parameter tls-ca: no certificate in this file")
		}
	}
	_, hasCert := u.Params["tls-cert"]
	_, hasKey := u.Params["tls-key"]
	if hasCert != hasKey {
		return nil, errors.New("tls-cert and tls-key go together")
	}
	if hasCert {
		cert, err := readFile(u, "tls-cert")
		if err != nil {
			return nil, err
		}
		key, err := readFile(u, "tls-key")
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, errors.New("tls-cert and tls-key are not a certificate and its key")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
