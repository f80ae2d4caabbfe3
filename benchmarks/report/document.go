// Package report turns the results of a comparison into a table for the terminal, a
// Markdown file, a JSON file and an HTML page with plots. All of them show the same
// [Document].
package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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
	Notes  []string // what is said below, in small print
	Brief  bool     // the terminal shows the tables and leaves the text out
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
	switch {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 0):
		return "∞"
	case v == 0:
		return "0"
	}
	abs := math.Abs(v)
	switch {
	case abs >= 1000:
		return thousands(int64(math.Round(v)))
	case abs >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	case abs >= .01:
		return trim(strconv.FormatFloat(v, 'f', 2, 64))
	case abs >= .0001:
		return trim(strconv.FormatFloat(v, 'f', 5, 64))
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if neg {
		s = "-" + s
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
