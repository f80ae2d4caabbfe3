package locker_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed80cd6120/locker"

// The core knows no backend and nothing but the standard library; a backend knows
// no other. An adapter that is part of this module needs no other library, nor does what
// the tests of adapters share, which has locks of these backends.
func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	backends := []string{module + "/memory", module + "/file", module + "/redis", module + "/redlock", module + "/zookeeper", module + "/etcd"}
	seen := 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, neutral := range []string{"conformance", "dashboard", "internal/redisnode", "internal/sqlqueue", "internal/look", "internal/openurl"} {
			for _, imported := range p.Imports {
				if p.ImportPath == module+"/"+neutral && slices.Contains(backends, imported) {
					t.Errorf("%s imports %s: it is to know no backend", neutral, imported)
				}
			}
		}
		core := p.ImportPath == module || p.ImportPath == module+"/driver"
		backend := slices.Contains(backends, p.ImportPath)
		adapter := strings.HasPrefix(p.ImportPath, module+"/adapters/")
		shared := strings.HasPrefix(p.ImportPath, module+"/adapters/internal/")
		if !core && !backend && !adapter {
			continue
		}
		seen++
		for _, imported := range p.Imports {
			switch {
			case shared && slices.Contains(backends, imported):
			case core && strings.Contains(imported, ".") && imported != module+"/driver":
				t.Errorf("%s imports %s", p.ImportPath, imported)
			case adapter && strings.Contains(imported, ".") && imported != module:
				t.Errorf("%s imports %s: it needs a module of its own", p.ImportPath, imported)
			case backend && slices.Contains(backends, imported):
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
	}
	if want := len(backends) + 4; seen != want {
		t.Errorf("looked at %d packages, want %d", seen, want)
	}
}
