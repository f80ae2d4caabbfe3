package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/seed80cd6120/locker/benchmarks/report"
)

// write leaves the files of the report, and says where.
func (o *options) write(in report.Input, d *report.Document, say io.Writer) error {
	if o.Out == "none" || o.Out == "" {
		return nil
	}
	plots := filepath.Join(o.Out, "plots")
	if err := os.MkdirAll(plots, 0o755); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	files := map[string]func(io.Writer) error{
		filepath.Join(o.Out, "report.md"):   func(w io.Writer) error { return report.Markdown(w, d, "plots") },
		filepath.Join(o.Out, "report.json"): func(w io.Writer) error { return report.JSON(w, in) },
		filepath.Join(o.Out, "report.html"): func(w io.Writer) error { return report.HTML(w, d) },
	}
	for _, s := range d.Sections {
		for _, p := range s.Plots {
			files[filepath.Join(plots, p.Name+".svg")] = func(w io.Writer) error {
				_, err := w.Write(p.SVG)
				return err
			}
		}
	}
	files[filepath.Join(o.Out, "readme.md")] = func(w io.Writer) error {
		p, err := report.Readme(w, in)
		if err != nil || p.SVG == nil {
			return err
		}
		return os.WriteFile(filepath.Join(o.Out, p.Name+".svg"), p.SVG, 0o644)
	}
	for name, write := range files {
		if err := writeFile(name, write); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	dir, err := filepath.Abs(o.Out)
	if err != nil {
		return err
	}
	fmt.Fprintf(say, "\nWritten to %s: report.html, report.md, report.json, plots/\n", dir)
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
