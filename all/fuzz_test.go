package all

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed80cd6120/locker/internal/eventually"
)

// mark is what must not be seen. No text of ours contains it.
const mark = "S3cr3tM4rk"

// A user, a password or the value of a parameter is in no error, no log and nothing that a Locker prints, escaped as it
// should be or not.
func FuzzSecrets(f *testing.F) {
	for scheme := range uint8(len(schemes) + 1) {
		for _, text := range []string{"", mark, "a" + mark, mark + ":b", mark + "@", "@" + mark, mark + "/x", "/" + mark, "?" + mark, "#" + mark, "%" + mark, mark + "%zz", "{" + mark + "}", "\n" + mark} {
			f.Add(scheme, text, text, "prefix", text, false)
			f.Add(scheme, "", text, "ttl", text, true)
			f.Add(scheme, "u", "p", "password-file", text, true)
			f.Add(scheme, "", "", "tls-ca", text, true)
		}
		for _, param := range []string{"owner", "hand-over", "db", "node-timeout", "fencing", "acl", "unknown", "tls-key", "password-env", "sentinel-user", "sentinel-password-env"} {
			f.Add(scheme, "", mark, param, mark, true)
		}
	}
	f.Fuzz(func(t *testing.T, scheme uint8, user, password, param, value string, escape bool) {
		all := append(slices.Clone(schemes), "consul")
		// A host that is a mark would be shown, and so would the name of a parameter.
		if strings.Contains(param, mark) || strings.ContainsAny(value, "&=") && !escape {
			t.Skip("an input that says its secret where names are said")
		}
		login := user + ":" + password + "@"
		if escape {
			login, value = url.UserPassword(user, password).String()+"@", url.QueryEscape(value)
		}
		raw := all[int(scheme)%len(all)] + "://" + login + "127.0.0.1:1?" + param + "=" + value
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		var log eventually.Output
		err := tryOnce(ctx, raw, &log)
		if text := fmt.Sprintf("%v %+v %#v %s", err, err, err, log.String()); strings.Contains(text, mark) {
			t.Errorf("%q: %s", raw, text)
		}
	})
}
