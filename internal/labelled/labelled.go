// Package labelled finds goroutines by their pprof label, which they inherit from the one that started them. That tells those of
// one test from all others, although many run at once.
package labelled

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
)

// Goroutines returns the stacks of the goroutines that carry the label, and how many there are.
func Goroutines(key, value string) (stacks string, n int) {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	var mine strings.Builder
	for block := range strings.SplitSeq(b.String(), "\n\n") {
		if !strings.Contains(block, fmt.Sprintf("%q:%q", key, value)) {
			continue
		}
		head := block
		if i := strings.Index(block, "@"); i > 0 {
			head = block[strings.LastIndex(block[:i], "\n")+1 : i]
		}
		count := 0
		if _, err := fmt.Sscan(strings.TrimSpace(head), &count); err != nil {
			count = 1
		}
		n += count
		mine.WriteString(block)
		mine.WriteString("\n\n")
	}
	return mine.String(), n
}
