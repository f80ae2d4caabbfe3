package conformance

import (
	"context"
	"path"
	"strings"

	"github.com/seed80cd6120/locker/driver"
)

// renamed has every claim go under another name.
func renamed(rename func(string) string) func() func(whole) *bent {
	return bend(bent{acquire: func(next whole, ctx context.Context, c *driver.Claim) (driver.Grant, error) {
		c.Name = rename(c.Name)
		return next.Acquire(ctx, c)
	}})
}

var nameDefects = []defect{
	{name: "names in lower case", cases: "Names/Odd Names/Random", driver: renamed(strings.ToLower)},
	{name: "names without blanks at their ends", cases: "Names/Odd Names/Prefixes", driver: renamed(strings.TrimSpace)},
	{name: "names as paths", cases: "Names/Odd Names/Prefixes", driver: renamed(path.Clean)},
	{name: "names up to NUL", cases: "Names/Odd Names/Random Names/Prefixes", driver: renamed(func(s string) string { s, _, _ = strings.Cut(s+"\x00", "\x00"); return s })},
	{name: "names as UTF-8", cases: "Names/Odd Names/Random", driver: renamed(func(s string) string { return strings.ToValidUTF8(s, "\ufffd") })},
	{name: "names up to 255 bytes", cases: "Names/Longest", driver: renamed(func(s string) string { return s[:min(len(s), 255)] })},
	{name: "a name blocks those below it", cases: "Names/Prefixes", driver: renamed(func(s string) string {
		if i := strings.LastIndex(s, "/x"); i >= 0 {
			return s[:i+2]
		}
		return s
	})},
	{name: "only the hash tag counts", cases: "Names/Odd", driver: renamed(func(s string) string {
		if i, j := strings.Index(s, "{"), strings.Index(s, "}"); i >= 0 && j > i+1 {
			return s[i+1 : j]
		}
		return s
	})},
}
