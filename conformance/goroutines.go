package conformance

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
)

// Goroutines inherit the labels of the one that started them. That tells those of
// one case from all others, although many cases run at once.
const labelKey = "conformance"

// stacks returns the stacks of the goroutines that carry the label.
func stacks(id string) string {
	text, _ := labelled(id)
	return text
}

func labelled(id string) (text string, n int) {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	var mine strings.Builder
	for _, block := range strings.Split(b.String(), "\n\n") {
		if !strings.Contains(block, fmt.Sprintf("%q:%q", labelKey, id)) {
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

// goroutines is the number of goroutines that this case has started and that
// have not ended.
func (c *C) goroutines() int {
	_, n := labelled(c.id)
	return n
}
