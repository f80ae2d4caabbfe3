package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed80cd6120/locker/benchmarks/catalog"
	"github.com/seed80cd6120/locker/benchmarks/report"
)

// again makes the reports from the file of an earlier run.
func (o *options) again(say io.Writer) error {
	f, err := os.Open(o.From)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := report.Read(f, catalog.Find)
	if err != nil {
		return err
	}
	return o.report(in, say)
}

// report tells what came of a run, on say and in files.
func (o *options) report(in report.Input, say io.Writer) error {
	d := report.Build(in)
	if err := report.Terminal(say, d); err != nil {
		return err
	}
	if err := o.write(in, d, say); err != nil {
		return err
	}
	if o.Page == "" {
		return nil
	}
	if err := intoPage(o.Page, in); err != nil {
		return fmt.Errorf("put the figures into %s: %w", o.Page, err)
	}
	fmt.Fprintf(say, "The short table stands in %s.\n", o.Page)
	return nil
}

// The marks in a page between which the figures stand.
const (
	markBegin = "<!-- figures: made by make figures -->"
	markEnd   = "<!-- end of figures -->"
)

// intoPage replaces what stands between the marks, and the plots.
func intoPage(file string, in report.Input) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(old), markBegin)
	_, after, ok2 := strings.Cut(rest, markEnd)
	if !ok || !ok2 {
		return errors.New("it has no marks (" + markBegin + " and " + markEnd + ")")
	}
	var b bytes.Buffer
	plots, err := report.Page(&b, in)
	if err != nil {
		return err
	}
	for _, p := range plots {
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), p.Name+".svg"), p.SVG, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(before+markBegin+"\n"+b.String()+markEnd+after), 0o644)
}

// write leaves the files of the report, and says where.
func (o *options) write(in report.Input, d *report.Document, say io.Writer) error {
	if o.Out == "none" || o.Out == "" {
		return nil
	}
	var markdown, data, page bytes.Buffer
	err := errors.Join(
		os.MkdirAll(filepath.Join(o.Out, "plots"), 0o755),
		report.Markdown(&markdown, d), report.JSON(&data, in), report.HTML(&page, d))
	files := map[string][]byte{"report.md": markdown.Bytes(), "report.json": data.Bytes(), "report.html": page.Bytes()}
	for _, s := range d.Sections {
		for _, p := range s.Plots {
			files[filepath.Join("plots", p.Name+".svg")] = p.SVG
		}
	}
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(o.Out, name), text, 0o644)
		}
	}
	dir, failed := filepath.Abs(o.Out)
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	fmt.Fprintf(say, "\nWritten to %s: report.html, report.md, report.json, plots/\n", dir)
	return nil
}
