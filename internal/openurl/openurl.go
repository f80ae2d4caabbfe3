// Package openurl reads from a URL what several backends need: addresses, user and password, TLS.
// Its errors quote nothing of the URL but names of parameters.
package openurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed80cd6120/locker"
)

// Server is what a URL says of a server, or of several that belong together. User and
// Password are also set if the password is in a file or in the environment.
type Server struct {
	*locker.URL
	Addresses []string    // host:port
	TLS       *tls.Config // or nil
}

// Opener is a locker.Opener that is given a Server.
type Opener func(ctx context.Context, s *Server, opts ...locker.Option) (locker.Locker, error)

// Register registers scheme, and secure, which is the same with TLS, for servers that
// listen on port unless the URL says otherwise. params are the parameters of the backend.
func Register(scheme, secure, port string, open Opener, params ...string) {
	params = append(secretParams("password"), params...)
	locker.Register(scheme, opener(port, open, nil), params...)
	params = append(slices.Clip(params), "tls-ca", "tls-cert", "tls-key", "tls-server-name")
	locker.Register(secure, opener(port, open, tlsConfig), params...)
}

// opener reads a Server from the URL and hands it to open.
func opener(port string, open Opener, config func(*locker.URL) (*tls.Config, error)) locker.Opener {
	return func(ctx context.Context, u *locker.URL, opts ...locker.Option) (locker.Locker, error) {
		s, err := read(u, port, config)
		if err != nil {
			return nil, err
		}
		return open(ctx, s, opts...)
	}
}

// Read reads a Server from a URL as the openers do; secure says whether with TLS.
func Read(u *locker.URL, port string, secure bool) (*Server, error) {
	if secure {
		return read(u, port, tlsConfig)
	}
	return read(u, port, nil)
}

func read(u *locker.URL, port string, config func(*locker.URL) (*tls.Config, error)) (*Server, error) {
	s := &Server{URL: u}
	var err error
	if s.Addresses, err = addresses(u.Hosts, port); err != nil {
		return nil, err
	}
	if s.Password, err = s.Secret("password", u.Password); err != nil {
		return nil, err
	}
	if u.User != "" && u.Password == "" {
		return nil, errors.New("a user without a password")
	}
	if config != nil {
		if s.TLS, err = config(u); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addresses returns host:port for each host, localhost if there is none.
func addresses(hosts []string, port string) ([]string, error) {
	if len(hosts) == 0 {
		return []string{net.JoinHostPort("localhost", port)}, nil
	}
	result := make([]string, len(hosts))
	for i, h := range hosts {
		host, p := h, port
		if !strings.HasSuffix(h, "]") && strings.Contains(h, ":") {
			var err error
			if host, p, err = net.SplitHostPort(h); err != nil {
				return nil, errAddress(i)
			}
		}
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 || host == "" || strings.ContainsAny(host, "[] %") {
			return nil, errAddress(i)
		}
		result[i] = net.JoinHostPort(host, p)
	}
	return result, nil
}

func errAddress(i int) error {
	return fmt.Errorf("host %d is not of the form host or host:port, with a port of 1 to 65535", i+1)
}

// secretParams names the parameters from which Secret reads.
func secretParams(name string) []string { return []string{name + "-env", name + "-file"} }

// Secret returns what is in the environment variable that the parameter name-env names, or in the file that
// name-file names, without the end of its line; given if there is neither. More than one of the three is an error.
func (s *Server) Secret(name, given string) (string, error) {
	env, fromEnv := s.Params[name+"-env"]
	_, fromFile := s.Params[name+"-file"]
	switch {
	case fromEnv && fromFile, given != "" && (fromEnv || fromFile):
		return "", fmt.Errorf("more than one %s: in the URL, by %s-env or by %s-file", name, name, name)
	case fromEnv:
		secret, ok := os.LookupEnv(env)
		if !ok {
			return "", fmt.Errorf("parameter %s-env: there is no such environment variable", name)
		}
		return secret, nil
	case fromFile:
		text, err := readFile(s.URL, name+"-file")
		return strings.TrimRight(string(text), "\r\n"), err
	}
	return given, nil
}

// readFile returns what is in the file that a parameter names.
func readFile(u *locker.URL, param string) ([]byte, error) {
	text, err := os.ReadFile(u.Params[param])
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // without the path, which may be a secret that stands in the wrong place
	}
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %w", param, err)
	}
	return text, nil
}

// Number returns the number from 0 to most that text is, 0 if it is empty. what names it in the error.
func Number(what, text string, most int) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s: want a number from 0 to %d", what, most)
	}
	return n, nil
}

// Duration returns the parameter as a duration; false if it is not there.
func (s *Server) Duration(param string) (d time.Duration, ok bool, err error) {
	text, ok := s.Params[param]
	if !ok {
		return 0, false, nil
	}
	if d, err = time.ParseDuration(text); err != nil {
		return 0, false, fmt.Errorf("parameter %s: want a duration such as 500ms", param)
	}
	return d, true, nil
}

// NoPath returns an error if the URL has a path.
func (s *Server) NoPath() error {
	if s.Path != "" && s.Path != "/" {
		return fmt.Errorf("%s:// takes no path", s.Scheme)
	}
	return nil
}
