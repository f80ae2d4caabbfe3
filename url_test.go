package locker

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A URL is taken apart where net/url would refuse or change it.
func TestParseURL(t *testing.T) {
	for raw, want := range map[string]URL{
		"memory://":                     {Scheme: "memory"},
		"MEMORY://Orders":               {Scheme: "memory", Hosts: []string{"Orders"}},
		"file:///var/lib/a%20b":         {Scheme: "file", Path: "/var/lib/a b"},
		"redis://:pa%2Fss%3A@h:6379/0":  {Scheme: "redis", Password: "pa/ss:", Hosts: []string{"h:6379"}, Path: "/0"},
		"redis://a@b:c@d@h":             {Scheme: "redis", User: "a@b", Password: "c@d", Hosts: []string{"h"}},
		"redlock://a:1,b:2,[::1]:3":     {Scheme: "redlock", Hosts: []string{"a:1", "b:2", "[::1]:3"}},
		"redis+sentinel://a:1,b:2/m?x=": {Scheme: "redis+sentinel", Hosts: []string{"a:1", "b:2"}, Path: "/m", Params: map[string]string{"x": ""}},
		"etcd://h?a=b%26c&d-e=f=g;h+i":  {Scheme: "etcd", Hosts: []string{"h"}, Params: map[string]string{"a": "b&c", "d-e": "f=g;h i"}},
		"etcd://u:p+%2B@h":              {Scheme: "etcd", User: "u", Password: "p++", Hosts: []string{"h"}},
	} {
		u, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if u.Scheme != want.Scheme || u.User != want.User || u.Password != want.Password || u.Path != want.Path ||
			!slices.Equal(u.Hosts, want.Hosts) || !maps.Equal(u.Params, want.Params) {
			t.Errorf("%s: %q %q %q %q %q %q", raw, u.Scheme, u.User, u.Password, u.Hosts, u.Path, u.Params)
		}
	}
}

// What is no URL is refused in words that say what to do and quote nothing of it.
func TestParseURLRefused(t *testing.T) {
	for raw, want := range map[string]string{
		"":                          "not a URL",
		"secret":                    "not a URL",
		"secret:6379":               "not a URL",
		"se cret://h":               "not a URL",
		"://secret":                 "not a URL",
		"redis://:sec/ret@h":        "%2F",
		"redis://:sec?ret@h":        "%3F",
		"redis://:sec#ret@h":        "%23",
		"redis://:sec#ret":          "fragment",
		"redis://:sec%ret@h":        "%25",
		"redis://sec%ret@h":         "%25",
		"redis://h/sec%ret":         "path",
		"redis://a,,b":              "empty host",
		"redis://a,b,":              "empty host",
		"redis://h?secret":          "name=value",
		"redis://h?secret=1&secre7": "parameter 2",
		"redis://h?SECRET=1":        "name=value",
		"redis://h?ttl=1&ttl=2":     "ttl is given twice",
		"redis://h?ttl=secret%":     "ttl",
		"redis://secret\n@h":        "control character",
	} {
		_, err := parseURL(raw)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.ToLower(err.Error()), "secr") {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
