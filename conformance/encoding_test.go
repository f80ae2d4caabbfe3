package conformance

import (
	"encoding/hex"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/internal/names"
)

func TestNames(t *testing.T) {
	NameEncoding(t, names.Escape, 0)
	t.Run("hex", func(t *testing.T) { NameEncoding(t, func(s string) string { return hex.EncodeToString([]byte(s)) }, 0) })
}

// careless are encodings that NameEncoding has to refuse.
var careless = map[string]func(string) string{
	"none":        func(s string) string { return s },
	"lower case":  func(s string) string { return names.Escape(strings.ToLower(s)) },
	"clean path":  func(s string) string { return names.Escape(path.Clean(s)) },
	"UTF-8":       func(s string) string { return names.Escape(strings.ToValidUTF8(s, "?")) },
	"slash only":  func(s string) string { return strings.ReplaceAll(s, "/", "%2F") },
	"underscores": func(s string) string { return strings.ReplaceAll(url.PathEscape(s), "%", "_") },
	"path escape": url.PathEscape,
	"trimmed":     func(s string) string { return names.Escape(strings.TrimSpace(s)) },
	"short":       func(s string) string { return names.Escape(s[:min(len(s), 200)]) },
	"long":        func(s string) string { return strings.Repeat(hex.EncodeToString([]byte(s)), 2) },
	"empty":       func(s string) string { return strings.TrimLeft(names.Escape(s), "a") },
}

const carelessEnv = "CONFORMANCE_CARELESS"

func TestCarelessEncoding(t *testing.T) {
	if name := os.Getenv(carelessEnv); name != "" {
		NameEncoding(t, careless[name], 0)
		return
	}
	for name := range careless {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestCarelessEncoding$", "-rapid.nofailfile", "-rapid.shrinktime=50ms")
			cmd.Env = append(os.Environ(), carelessEnv+"="+name)
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("passes:\n%s", out)
			} else if !strings.Contains(string(out), "FAIL") {
				t.Errorf("did not run: %v\n%s", err, out)
			}
		})
	}
}
