package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Terminal writes the document for reading in a terminal: the tables, and of the text
// what is needed to read them.
func Terminal(w io.Writer, d *Document) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s\n", d.Title, strings.Repeat("=", utf8.RuneCountInString(d.Title)))
	for _, line := range d.Intro {
		fmt.Fprintln(&b, line)
	}
	for _, s := range d.Sections {
		fmt.Fprintf(&b, "\n%s\n%s\n", s.Title, strings.Repeat("-", utf8.RuneCountInString(s.Title)))
		if !s.Brief {
			for _, p := range s.Text {
				fmt.Fprintln(&b, p)
			}
			for _, p := range s.List {
				fmt.Fprintln(&b, "- "+p)
			}
		}
		for _, t := range s.Tables {
			b.WriteByte('\n')
			if t.Caption != "" {
				fmt.Fprintln(&b, t.Caption)
			}
			grid(&b, t)
		}
		for _, n := range s.Notes {
			fmt.Fprintln(&b, "  "+n)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func grid(b *strings.Builder, t Table) {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(row []string) {
		var l strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 || t.Left {
				l.WriteString(cell + pad)
			} else {
				l.WriteString(pad + cell)
			}
			l.WriteString("  ")
		}
		b.WriteString("  " + strings.TrimRight(l.String(), " ") + "\n")
	}
	line(t.Head)
	for _, row := range t.Rows {
		line(row)
	}
}
