// Package report turns the results of a comparison into a table for the terminal, a
// Markdown file, a JSON file and an HTML page with plots. All of them show the same
// [Document].
package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Document is a report, whatever it is written as.
type Document struct {
	Title    string
	Intro    []string
	Sections []Section
}

// Section is one chapter.
type Section struct {
	Title  string
	Text   []string // paragraphs
	List   []string // points, after the paragraphs
	Tables []Table
	Plots  []Plot
	Brief  bool // the terminal shows the tables and leaves the text out
}

// Table has a caption, a head and rows. All columns but the first are aligned as
// Left says.
type Table struct {
	Caption string
	Head    []string
	Rows    [][]string
	Left    bool
	// Minor are the columns that the terminal leaves out, by index.
	Minor map[int]bool
}

// Plot is a picture with a name for its file.
type Plot struct {
	Name    string
	Caption string
	SVG     []byte
}

// number writes a value so that about three digits count.
func number(v float64) string {
	digits := 0
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 0):
		return "∞"
	case abs >= 1000:
		return humanize.Comma(int64(math.Round(v)))
	case abs >= 100:
	case abs >= 10:
		digits = 1
	case abs >= .01:
		digits = 2
	case abs >= .0001:
		digits = 5
	case v != 0:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// spread writes how far the repetitions lay from each other: half of the range, as a
// part of the median; or from where to where, if that is more than the median itself.
func spread(median, least, greatest float64) string {
	if math.IsNaN(median) || math.IsInf(greatest, 0) || least == greatest {
		return ""
	}
	if median == 0 || (greatest-least)/2 > math.Abs(median) {
		return fmt.Sprintf(" (%s–%s)", number(least), number(greatest))
	}
	return fmt.Sprintf(" ±%.0f%%", 100*(greatest-least)/2/math.Abs(median))
}
