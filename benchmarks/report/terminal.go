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
		if s.Brief && len(s.Tables) == 0 {
			continue
		}
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
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// grid writes a table. The words of the head stand below each other where that saves
// room.
func grid(b *strings.Builder, t Table) {
	var columns []int
	for i := range t.Head {
		if !t.Minor[i] {
			columns = append(columns, i)
		}
	}
	widths := make([]int, len(t.Head))
	heads := make([][]string, len(t.Head))
	height := 0
	for _, i := range columns {
		for _, row := range t.Rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		heads[i] = wrap(t.Head[i], widths[i])
		for _, l := range heads[i] {
			widths[i] = max(widths[i], utf8.RuneCountInString(l))
		}
		height = max(height, len(heads[i]))
	}
	line := func(cell func(i int) string) {
		var l strings.Builder
		for _, i := range columns {
			text := cell(i)
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if i == 0 || t.Left {
				l.WriteString(text + pad)
			} else {
				l.WriteString(pad + text)
			}
			l.WriteString("  ")
		}
		b.WriteString("  " + strings.TrimRight(l.String(), " ") + "\n")
	}
	for n := range height {
		line(func(i int) string {
			if from := n - (height - len(heads[i])); from >= 0 {
				return heads[i][from]
			}
			return ""
		})
	}
	for _, row := range t.Rows {
		line(func(i int) string { return row[i] })
	}
}

// noBreak stands between a figure's name and its unit, which stay on one line.
const noBreak = "\u00a0"

// wrap breaks text between words into lines of at most width, or of one word.
func wrap(text string, width int) []string {
	var lines []string
	for word := range strings.SplitSeq(text, " ") {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last]+" "+word) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}
