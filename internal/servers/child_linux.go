package servers

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

func guardChild(int) (io.Closer, error) { return nil, nil }

// childrenOf returns the processes that a child has started and that live.
func childrenOf(pid int) (all []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for word := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// awaitEnd waits until processes that were killed have let go of what they had.
func awaitEnd(pids []int) {
	for _, pid := range pids {
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if _, state, _ := strings.Cut(string(text), ") "); err != nil || strings.HasPrefix(state, "Z") {
				break
			}
		}
	}
}
