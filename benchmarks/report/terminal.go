package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
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

// grid writes a table. Where the columns are of figures the words of their heads stand below each other.
func grid(b *strings.Builder, t Table) {
	rows, align := append([][]string{t.Head}, t.Rows...), uint(0)
	if !t.Left {
		rows, align = append(stacked(t.Head), t.Rows...), tabwriter.AlignRight
	}
	width := 0
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[0]))
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', align)
	for _, row := range rows {
		fmt.Fprintf(w, "%-*s\t", width, row[0]) // of one width, so that it stands on the left in either case
		for i, cell := range row[1:] {
			if !t.Minor[i+1] {
				fmt.Fprint(w, cell, "\t")
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

// noBreak stands between a figure's name and its unit, which stay on one line.
const noBreak = "\u00a0"

// stacked returns the rows of a head of which each has one word of a cell, the last of all in the last row.
func stacked(head []string) [][]string {
	height := 0
	for _, cell := range head {
		height = max(height, strings.Count(cell, " ")+1)
	}
	rows := make([][]string, height)
	for _, cell := range head {
		words := strings.Split(strings.Repeat(" ", height-1-strings.Count(cell, " "))+cell, " ")
		for n := range rows {
			rows[n] = append(rows[n], words[n])
		}
	}
	return rows
}
