package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the document as Markdown. Plots are linked by their names as files in the folder plots beside it.
func Markdown(w io.Writer, d *Document) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", d.Title)
	paragraphs(&b, d.Intro)
	for _, s := range d.Sections {
		fmt.Fprintf(&b, "\n## %s\n", s.Title)
		paragraphs(&b, s.Text)
		if len(s.List) > 0 {
			b.WriteByte('\n')
		}
		for _, p := range s.List {
			fmt.Fprintf(&b, "- %s\n", p)
		}
		for _, t := range s.Tables {
			if t.Caption != "" {
				fmt.Fprintf(&b, "\n**%s**\n", t.Caption)
			}
			b.WriteByte('\n')
			markdownTable(&b, t)
		}
		for _, p := range s.Plots {
			fmt.Fprintf(&b, "\n![%s](plots/%s.svg)\n", p.Caption, p.Name)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func paragraphs(b *strings.Builder, all []string) {
	for _, p := range all {
		fmt.Fprintf(b, "\n%s\n", p)
	}
}

func markdownTable(b *strings.Builder, t Table) {
	row := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + strings.ReplaceAll(c, "|", `\|`) + " |")
		}
		b.WriteByte('\n')
	}
	row(t.Head)
	b.WriteString("|")
	for i := range t.Head {
		if i == 0 || t.Left {
			b.WriteString(" :-- |")
		} else {
			b.WriteString(" --: |")
		}
	}
	b.WriteByte('\n')
	for _, r := range t.Rows {
		row(r)
	}
}
