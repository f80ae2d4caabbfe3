// Package machine says on what a comparison was run.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// Info names the machine.
type Info struct {
	CPU      string        `json:"cpu"`
	Cores    int           `json:"cores"`
	MemoryGB float64       `json:"memory_gb"`
	System   string        `json:"system"`
	Go       string        `json:"go"`
	Fsync    time.Duration `json:"fsync_ns"` // the median of some, in the folder where servers keep their data
	Revision string        `json:"revision"` // of the project, "" if not known
	Load     float64       `json:"load"`     // average of the last minute
}

// Busy reports whether the machine had other work when Look was called.
func (i Info) Busy() bool { return i.Load > .5*float64(i.Cores) }

// Look finds out.
func Look() Info {
	i := Info{
		CPU:    first("/proc/cpuinfo", "model name"),
		Cores:  runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		Go:     runtime.Version(),
		Fsync:  fsync(),
	}
	if v := first("/etc/os-release", "PRETTY_NAME"); v != "" {
		i.System += ", " + strings.Trim(v, `"`)
	}
	var kb float64
	if _, err := fmt.Sscan(first("/proc/meminfo", "MemTotal"), &kb); err == nil {
		i.MemoryGB = kb / (1 << 20)
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(b), &i.Load)
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, s := range b.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				i.Revision = s.Value[:12]
			}
		}
	}
	return i
}

// String is one line.
func (i Info) String() string {
	cpu := i.CPU
	if cpu == "" {
		cpu = "unknown CPU"
	}
	s := fmt.Sprintf("%s, %d cores, %.0f GB, %s, %s", cpu, i.Cores, i.MemoryGB, i.System, i.Go)
	if i.Fsync > 0 {
		s += fmt.Sprintf(", one fsync takes %v", i.Fsync.Round(10*time.Microsecond))
	}
	return s
}

// first returns what stands after name on the first line that begins with it.
func first(file, name string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Trim(rest, " \t:=\n")
		}
	}
	return ""
}

// fsync measures what a small write to the disk takes.
func fsync() time.Duration {
	f, err := os.CreateTemp(os.Getenv(servers.DirVariable), "locker-fsync")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	var took []time.Duration
	for range 31 {
		start := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2]
}
