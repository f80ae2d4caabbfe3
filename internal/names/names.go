// Package names turns lock names, which may be any bytes, into text that is
// safe as one segment of a path and that operators still recognise.
package names

import "strings"

const hex = "0123456789ABCDEF"

// Escape writes name so that it holds only ASCII letters, digits and the marks
// -_.~:,=@+ with every other byte as %XX, and is neither "." nor "..". It is
// injective: distinct names have distinct escapes. A name made of plain
// characters is its own escape.
func Escape(name string) string {
	dots := strings.Trim(name, ".") == ""
	plain := !dots
	for i := 0; i < len(name) && plain; i++ {
		plain = safe(name[i])
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + 16)
	for i := 0; i < len(name); i++ {
		if c := name[i]; safe(c) && !dots {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

func safe(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("-_.~:,=@+", c) >= 0
}
