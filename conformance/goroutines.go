package conformance

import "github.com/seed80cd6120/locker/internal/labelled"

// labelKey is the label of the goroutines that a case has started.
const labelKey = "conformance"

// stacks returns the stacks of the goroutines that carry the label.
func stacks(id string) string {
	text, _ := labelled.Goroutines(labelKey, id)
	return text
}

// goroutines is the number of goroutines that this case has started and that
// have not ended.
func (c *C) goroutines() int {
	_, n := labelled.Goroutines(labelKey, c.id)
	return n
}
