package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// progress shows what is being done: on a terminal in one line that changes, elsewhere
// with a line for every experiment and every ten seconds.
type progress struct {
	w     io.Writer
	live  bool
	start time.Time

	mu      sync.Mutex
	last    time.Time
	chapter string // that last was of
	width   int
}

func newProgress(f *os.File) *progress {
	return &progress{w: f, live: isatty.IsTerminal(f.Fd()), start: time.Now()}
}

func (p *progress) tell(what string, done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Since(p.start).Round(time.Second)
	line := fmt.Sprintf("%3.0f%% %6v  %s", 100*done, since, what)
	if p.live {
		width := utf8.RuneCountInString(line)
		fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-width)))
		p.width = width
		return
	}
	chapter := what[:max(0, strings.IndexAny(what+":", ",:"))]
	if time.Since(p.last) >= 10*time.Second || chapter != p.chapter {
		p.last, p.chapter = time.Now(), chapter
		fmt.Fprintln(p.w, line)
	}
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live && p.width > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
	}
}
