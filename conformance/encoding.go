package conformance

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed80cd6120/locker"
)

// NameEncoding tests a function by which a backend makes keys, or segments of
// paths, of names: it is the usual reason for two names to meet. For all strings of
// bytes that are names
//
//   - distinct names have distinct encodings, and one name always the same,
//   - no encoding contains a slash or NUL, so that none is a path below another,
//   - none is empty, "." or "..",
//   - none is longer than three times the name, or maxLen if that is not zero.
//
// What comes before and after the encoding in a key is the backend's business.
func NameEncoding(t *testing.T, encode func(name string) string, maxLen int) {
	t.Helper()
	for i, a := range oddNames {
		encodes(t, encode, a, maxLen)
		for _, b := range oddNames[:i] {
			apart(t, encode, a, b)
		}
	}
	name := rapid.Custom(func(t *rapid.T) string {
		return rapid.OneOf(
			rapid.StringOfN(rapid.Rune(), 1, 64, locker.MaxName),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 64), func(b []byte) string { return string(b) }),
			rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"%", "%2F", "/", ".", "..", "{", "}", "a", "A", "2F", "_", "\x00", "\xff", " "}), 1, 8),
				func(s []string) string { return strings.Join(s, "") }),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), locker.MaxName, locker.MaxName), func(b []byte) string { return string(b) }),
		).Draw(t, "name")
	})
	rapid.Check(t, func(t *rapid.T) {
		a := name.Draw(t, "a")
		encodes(t, encode, a, maxLen)
		for _, b := range append(near(a), name.Draw(t, "b")) {
			apart(t, encode, a, b)
		}
		// What one name becomes must not be what the encoded form of it becomes.
		apart(t, encode, a, encode(a))
	})
}

// fataler is what a *testing.T and a *rapid.T have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func encodes(t fataler, encode func(string) string, name string, maxLen int) {
	t.Helper()
	e := encode(name)
	longest := 3 * len(name)
	if maxLen > 0 {
		longest = maxLen
	}
	switch {
	case e != encode(name):
		t.Fatalf("%q has two encodings, %q and %q", name, e, encode(name))
	case e == "" || e == "." || e == "..":
		t.Fatalf("%q becomes %q", name, e)
	case strings.ContainsAny(e, "/\x00"):
		t.Fatalf("%q becomes %q, which is more than one segment of a path", name, e)
	case len(e) > longest:
		t.Fatalf("a name of %d bytes becomes one of %d, want at most %d", len(name), len(e), longest)
	}
}

func apart(t fataler, encode func(string) string, a, b string) {
	t.Helper()
	if a != b && b != "" && len(b) <= locker.MaxName && encode(a) == encode(b) {
		t.Fatalf("%q and %q both become %q", a, b, encode(a))
	}
}

// near returns names that a careless encoding takes for name.
func near(name string) []string {
	return []string{
		strings.ToLower(name), strings.ToUpper(name), strings.ToValidUTF8(name, "\ufffd"),
		name + " ", " " + name, name + "/", "/" + name, name + ".", name + "\x00", "{" + name + "}", "%" + name,
		strings.TrimSpace(name), strings.Trim(name, "/"), strings.ReplaceAll(name, "/", "_"), strings.ReplaceAll(name, "%", "%25"),
		strings.ReplaceAll(name, "/", "%2F"), strings.ReplaceAll(name, "\x00", ""), name[:len(name)-1],
	}
}
