package finding

import (
	"strconv"
	"strings"
)

// List collects findings about one server.
type List struct {
	Server   string
	Findings []Finding
}

// OK records what is as it should be.
func (l *List) OK(what string) { l.add(OK, what, "", "") }

// Unknown records what the server does not tell, and what to do to know it.
func (l *List) Unknown(what, do string) { l.add(Unknown, what, "", do) }

// Warn records what breaks a promise in the case that means names.
func (l *List) Warn(what, means, do string) { l.add(Warning, what, means, do) }

// Broken records what breaks a promise.
func (l *List) Broken(what, means, do string) { l.add(Broken, what, means, do) }

func (l *List) add(severity Severity, what, means, do string) {
	l.Findings = append(l.Findings, Finding{severity, l.Server, what, means, do})
}

// Version records a server's version; it must be at least that one.
func (l *List) Version(version, least string) {
	if Older(version, least) {
		l.Broken("version "+version, "locks need "+least+" or later", "upgrade the server")
		return
	}
	l.OK("version " + version)
}

// Older reports whether a version, such as 3.4.20, is older than another.
func Older(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for n := range min(len(a), len(b)) {
		x, err1 := strconv.Atoi(digits(a[n]))
		y, err2 := strconv.Atoi(digits(b[n]))
		if err1 != nil || err2 != nil {
			return false
		}
		if x != y {
			return x < y
		}
	}
	return len(a) < len(b)
}

// digits returns the digits that text begins with.
func digits(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return text
	}
	return text[:end]
}
