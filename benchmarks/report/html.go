package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html
var page string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"svg":  inline,
	"code": code,
}).Parse(page))

// HTML writes the document as one page that needs nothing else.
func HTML(w io.Writer, d *Document) error { return pageTemplate.Execute(w, d) }

// inline takes off what may stand before <svg> in a file but not in a page.
func inline(svg []byte) template.HTML {
	s := string(svg)
	if i := strings.Index(s, "<svg"); i > 0 {
		s = s[i:]
	}
	return template.HTML(s)
}

// code sets what stands between backquotes as code.
func code(s string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + template.HTMLEscapeString(part) + "</code>")
		} else {
			b.WriteString(template.HTMLEscapeString(part))
		}
	}
	return template.HTML(b.String())
}
