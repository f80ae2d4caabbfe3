package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// build writes the page to a folder of its own and returns that.
func build(t *testing.T) string {
	t.Helper()
	site := filepath.Join(t.TempDir(), "site")
	if out, err := exec.Command("./build.sh", site).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return site
}

func TestBuild(t *testing.T) {
	site := build(t)
	for _, file := range []string{"index.html", "page.css", "page.js", "wasm_exec.js", "demo.wasm"} {
		if info, err := os.Stat(filepath.Join(site, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The drawing of the story is well-formed and small enough for a README.
func TestDrawing(t *testing.T) {
	file, err := os.Open("../docs/story.svg")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	d := xml.NewDecoder(file)
	for err == nil {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) || d.InputOffset() > 20_000 {
		t.Errorf("%v after %d bytes", err, d.InputOffset())
	}
}
