package locker

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// URL is a URL that Open was given, taken apart, for an Opener. Unlike one of package net/url it has
// any number of hosts. When printed it shows no more than scheme, hosts and path.
type URL struct {
	Scheme string // lower-case

	// User and Password are what stands before the @, unescaped.
	User, Password string

	// Hosts are what stands between commas after that, as written: "a:6379", "b", "[::1]:2379".
	// None if there is nothing.
	Hosts []string

	// Path is what follows, unescaped: "" or what begins with "/".
	Path string

	// Params are the parameters, unescaped, without those of every URL.
	Params map[string]string
}

// String returns what may be printed of u.
func (u *URL) String() string { return u.Scheme + "://" + strings.Join(u.Hosts, ",") + u.Path }

// Format prints u by String, whatever the verb.
func (u *URL) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, u.String()) }

// MarshalText is String, for logs.
func (u *URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// ParseURL takes a URL apart as Open does, for tools that speak to its servers themselves. It
// does not look whether the scheme is registered, and Params has those of every URL, too.
func ParseURL(rawURL string) (*URL, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, InvalidOption("url", err)
	}
	return u, nil
}

// parseURL takes raw apart. It is written here because net/url knows only one host, and quotes the
// whole URL, with the password, in its errors. The errors here quote names of parameters only, which
// cannot be part of a password: an @ behind the hosts is refused.
func parseURL(raw string) (*URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok || !validScheme(scheme) {
		return nil, errors.New("not a URL of the form scheme://hosts/path?parameters")
	}
	u := &URL{Scheme: scheme, Params: make(map[string]string)}
	authority, rest := cutBefore(rest, "/?#")
	path, rest := cutBefore(rest, "?#")
	query, fragment := cutBefore(strings.TrimPrefix(rest, "?"), "#")
	switch {
	case strings.Contains(path+query+fragment, "@"):
		return nil, errors.New("an @ behind the hosts: in a user or a password / ? # are written %2F %3F %23, elsewhere @ is written %40")
	case fragment != "":
		return nil, errors.New("a fragment: # is written %23")
	case strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, errors.New("a control character")
	}
	var err error
	if u.Path, err = url.PathUnescape(path); err != nil {
		return nil, errors.New("a % in the path that begins no escape")
	}
	if err := u.setAuthority(authority); err != nil {
		return nil, err
	}
	return u, u.setParams(query)
}

// setAuthority takes what stands between :// and the path apart.
func (u *URL) setAuthority(authority string) error {
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		var err1, err2 error
		u.User, err1 = url.PathUnescape(user)
		u.Password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return errors.New("a % in the user or the password that begins no escape: it is written %25")
		}
		hosts = authority[at+1:]
	}
	if hosts == "" {
		return nil
	}
	u.Hosts = strings.Split(hosts, ",")
	for _, host := range u.Hosts {
		if host == "" {
			return errors.New("an empty host between commas")
		}
	}
	return nil
}

// setParams takes the query apart.
func (u *URL) setParams(query string) error {
	if query == "" {
		return nil
	}
	for i, pair := range strings.Split(query, "&") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") != "" || name == "" {
			return fmt.Errorf("parameter %d is not of the form name=value, in a name only a to z and -", i+1)
		}
		if _, twice := u.Params[name]; twice {
			return fmt.Errorf("parameter %s is given twice", name)
		}
		unescaped, err := url.QueryUnescape(value)
		if err != nil {
			return fmt.Errorf("parameter %s: a %% that begins no escape: it is written %%25", name)
		}
		u.Params[name] = unescaped
	}
	return nil
}

// cutBefore cuts s before the first of chars.
func cutBefore(s, chars string) (before, after string) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// validScheme reports whether s can be the scheme of a URL.
func validScheme(s string) bool {
	return s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
}
